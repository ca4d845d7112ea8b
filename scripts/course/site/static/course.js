// The choice of language, and links that keep it.
//
// This script runs in the head, so that nothing of the other language is painted first. Pages of
// file:// share no storage in Firefox, so links carry the choice as ?lang= too.
(() => {
  "use strict";
  const root = document.documentElement;
  const LANGUAGES = ["both", "en", "zh"];
  const KEY = "course-language";

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden: the address alone carries the choice
    }
  }

  function store(language) {
    try {
      localStorage.setItem(KEY, language);
    } catch {
      // as above
    }
  }

  // What the reader has chosen, here or on another page; null if nothing.
  function chosen() {
    const asked = new URLSearchParams(location.search).get("lang") || stored();
    return LANGUAGES.includes(asked) ? asked : null;
  }

  let choice = chosen();
  let language = choice || "both";
  root.classList.add("js");
  root.dataset.courseLanguage = language;

  // The links to pages of this site, those in drawings too: relative, as they were written.
  const links = [];

  function collectLinks() {
    for (const link of document.querySelectorAll("a[href]")) {
      const address = link.getAttribute("href");
      if (/^([a-z]+:|#|$)/i.test(address)) continue;
      if (new URL(address, location.href).pathname.endsWith(".html")) links.push(link);
    }
  }

  function markLinks() {
    if (!choice) return;
    for (const link of links) {
      const address = new URL(link.getAttribute("href"), location.href);
      address.searchParams.set("lang", choice);
      link.setAttribute("href", address.href);
    }
  }

  // Labels and tooltips are `English · 中文`: the part that is shown now.
  const ATTRIBUTES = ["aria-label", "title", "placeholder", "data-bs-original-title"];
  const labels = new Map(); // element → attribute → both parts

  function collectLabels() {
    for (const attribute of ATTRIBUTES) {
      for (const element of document.querySelectorAll(`[${attribute}*=" · "]`)) {
        const text = element.getAttribute(attribute);
        const at = text.lastIndexOf(" · ");
        if (!/[\u3400-\u9fff]/.test(text.slice(at))) continue;
        if (!labels.has(element)) labels.set(element, new Map());
        labels.get(element).set(attribute, { both: text, en: text.slice(0, at), zh: text.slice(at + 3) });
      }
    }
  }

  function markLabels() {
    for (const [element, attributes] of labels) {
      for (const [attribute, texts] of attributes) {
        if (element.hasAttribute(attribute)) element.setAttribute(attribute, texts[language]);
      }
    }
  }

  // A form's address loses what follows `?`, so it takes the language along as a field.
  function markForms() {
    for (const form of document.querySelectorAll('form[method="get"]')) {
      form.querySelector('input[name="lang"]')?.remove();
      if (!choice) continue;
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "lang", value: choice });
      form.append(field);
    }
  }

  function apply() {
    root.dataset.courseLanguage = language;
    root.lang = language === "zh" ? "zh-Hant-TW" : "en";
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choose === language));
    }
    markLinks();
    markLabels();
    markForms();
    document.dispatchEvent(new CustomEvent("course-language"));
  }

  function choose(asked) {
    choice = asked;
    language = asked;
    store(asked);
    const address = new URL(location.href);
    address.searchParams.set("lang", asked);
    try {
      history.replaceState(history.state, "", address);
    } catch {
      // some browsers forbid this on file://
    }
    apply();
  }

  const ACTS = {
    lessons: () => root.classList.toggle("no-lessons"),
    print: () => window.print(),
    full: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()),
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => choose(button.dataset.choose));
    }
    collectLinks();
    collectLabels();
    for (const button of document.querySelectorAll("[data-act]")) {
      button.addEventListener("click", ACTS[button.dataset.act]);
    }
    apply();
  });
  window.course = { language: () => language, choice: () => choice };
})();
