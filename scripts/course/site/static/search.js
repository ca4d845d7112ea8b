// The search page.
(() => {
  "use strict";
  const AROUND = 80; // characters of an excerpt on each side of the hit
  const FIELDS = ["en", "zh", "code"];
  const HAN = /[\u3400-\u9fff]/;

  let finder; // once its sections are unpacked

  // `06 · DDP · 分散式資料平行`: each part in its language, so that the page shows the chosen one.
  function bilingual(text, words) {
    const made = document.createDocumentFragment();
    const parts = text.split(" · ");
    const both = parts.some((part) => HAN.test(part)) && parts.some((part) => /[a-z]{2}/i.test(part) && !HAN.test(part));
    const kind = (part) => (HAN.test(part) ? "zh-Hant-TW" : /[a-z]{2}/i.test(part) ? "en" : "");
    parts.forEach((part, number) => {
      if (number) {
        const between = document.createElement("span");
        between.textContent = " · ";
        if (both && kind(part) && kind(parts[number - 1])) between.className = "between";
        made.append(between);
      }
      const piece = document.createElement("span");
      piece.append(marked(part, words));
      if (both && kind(part)) piece.lang = kind(part);
      made.append(piece);
    });
    return made;
  }

  // Text with every word of the query marked, in either script.
  function marked(text, words) {
    const made = document.createDocumentFragment();
    const escaped = [...words]
      .sort((a, b) => b.length - a.length)
      .map((word) => `${/^[a-z\d]/.test(word) ? "(?<![a-z\\d])" : ""}${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}${/^[a-z\d]{1,3}$/.test(word) ? "(?![a-z\\d])" : ""}`);
    let at = 0;
    for (const piece of finder.plain(text).split(new RegExp(`(${escaped.join("|")})`, "gi"))) {
      const written = text.slice(at, at + piece.length);
      const isWord = words.includes(piece.toLowerCase());
      const node = isWord ? document.createElement("mark") : document.createTextNode(written);
      if (isWord) node.textContent = written;
      made.append(node);
      at += piece.length;
    }
    return made;
  }

  // The piece of a section around the first hit, from the shown language if it is there; its
  // beginning, if only the title has the words.
  function excerpt(section, words, language) {
    const order = language === "zh" ? ["zh", "en", "code"] : FIELDS;
    const searched = Object.fromEntries(order.map((name) => [name, finder.plain(section[name] || "").toLowerCase()]));
    // A page of an error begins with its cause: that is what to read.
    for (const word of section.texts ? [""] : [...words, ""]) {
      for (const name of order) {
        const at = searched[name].indexOf(word);
        const text = section[name] || "";
        if (at < 0 || !text) continue;
        const from = Math.max(0, at - AROUND);
        const until = Math.min(text.length, at + word.length + AROUND);
        const cut = `${from ? "…" : ""}${text.slice(from, until)}${until < text.length ? "…" : ""}`;
        const made = document.createElement("p");
        // Not `lang` of the page's rule: an excerpt in the other language is better than none.
        made.className = "excerpt kept";
        made.dataset.field = name;
        made.lang = name === "zh" ? "zh-Hant-TW" : "en";
        made.append(marked(cut, words));
        return made;
      }
    }
    return "";
  }

  function lead(link, at) {
    const [page, place] = at.split("#");
    const choice = window.course.choice();
    link.href = `${page}${choice ? `?lang=${choice}` : ""}#${place}`;
  }

  function item(section, words, language) {
    const entry = document.createElement("li");
    const link = document.createElement("a");
    lead(link, section.at);
    if (section.page) link.append(bilingual(section.page, words), " › ");
    if (section.texts) {
      const message = document.createElement("code");
      message.append(marked(section.title, words));
      link.append(message);
    } else {
      link.append(bilingual(section.title, words));
    }
    entry.append(link, excerpt(section, words, language));
    return entry;
  }

  document.addEventListener("DOMContentLoaded", async () => {
    const results = document.getElementById("course-results");
    const field = document.getElementById("course-query");
    const say = (name, shown) => {
      document.getElementById(`course-${name}`).hidden = !shown;
    };
    const show = () => {
      const language = window.course.language();
      const { hits, named, isMessage, words } = finder.find(field.value, language);
      const asked = field.value.trim() !== "";
      results.replaceChildren(...hits.map((id) => item(finder.rows[id], words, language)));
      for (const number of document.querySelectorAll("[data-found]")) number.textContent = hits.length;
      say("found", hits.length > 0);
      say("unknown", isMessage && !named);
      say("nothing", asked && !isMessage && !hits.length);
    };
    field.value = new URLSearchParams(location.search).get("q") || "";
    if (!field.value) field.focus();
    finder = await Finder.load();
    window.course.finder = finder; // tests ask it, too
    for (const link of document.querySelectorAll("[data-section]")) {
      lead(link, finder.place(link.dataset.section));
    }
    results.removeAttribute("aria-busy");
    field.addEventListener("input", show);
    document.addEventListener("course-language", show);
    show();
  });
})();
