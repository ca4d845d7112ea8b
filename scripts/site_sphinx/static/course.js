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

  function chosen() {
    const asked = new URLSearchParams(location.search).get("lang") || stored();
    return LANGUAGES.includes(asked) ? asked : "both";
  }

  let language = chosen();
  root.classList.add("js");
  root.dataset.courseLanguage = language;

  // Whether an address is a page of this site.
  function isInternal(link) {
    const address = link.getAttribute("href") || "";
    return address !== "" && !/^([a-z]+:|#)/i.test(address) && link.pathname.endsWith(".html");
  }

  function markLinks() {
    for (const link of document.querySelectorAll("a[href]")) {
      if (!isInternal(link)) continue;
      const address = new URL(link.href);
      if (language === "both") address.searchParams.delete("lang");
      else address.searchParams.set("lang", language);
      link.href = address.href;
    }
  }

  function apply() {
    root.dataset.courseLanguage = language;
    root.lang = language === "zh" ? "zh-Hant-TW" : "en";
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choose === language));
    }
    markLinks();
  }

  function choose(asked) {
    language = asked;
    store(language);
    const address = new URL(location.href);
    if (language === "both") address.searchParams.delete("lang");
    else address.searchParams.set("lang", language);
    try {
      history.replaceState(history.state, "", address);
    } catch {
      // some browsers forbid this on file://
    }
    apply();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => choose(button.dataset.choose));
    }
    for (const button of document.querySelectorAll("[data-act]")) {
      const print = button.dataset.act === "print";
      button.addEventListener("click", () => (print ? window.print() : window.toggleFullScreen()));
    }
    apply();
  });
  window.course = { language: () => language };
})();
