// The search of the site: every section is one entry of courseSections, which Sphinx has written.
//
// All words of a query must be in a section. Chinese has no spaces, so words are looked for as
// they are written, anywhere in the text. Hits in the shown language come first, none is left out.
(() => {
  "use strict";
  const AROUND = 70; // characters of an excerpt on each side of the hit
  const TITLE = 20; // how many hits in the text one in the title is worth

  function count(text, word) {
    return text.toLowerCase().split(word).length - 1;
  }

  // How well a section answers; 0 if a word is missing.
  function score(section, words, language) {
    let total = 0;
    for (const word of words) {
      const inTitle = count(section.title, word);
      const hits = { en: count(section.en, word), zh: count(section.zh, word) };
      const neutral = count(section.code, word);
      const shown = language === "both" ? hits.en + hits.zh : hits[language];
      const other = hits.en + hits.zh - shown;
      if (inTitle + shown + other + neutral === 0) return 0;
      total += TITLE * inTitle + Math.min(shown, 9) + Math.min(neutral, 9) / 10 + Math.min(other, 9) / 100;
    }
    return total;
  }

  function excerpt(section, words, language) {
    const order = language === "zh" ? ["zh", "en", "code"] : ["en", "zh", "code"];
    for (const field of order) {
      const at = section[field].toLowerCase().indexOf(words[0]);
      if (at >= 0) {
        const from = Math.max(0, at - AROUND);
        const until = at + words[0].length + AROUND;
        const text = section[field];
        return {
          field,
          before: (from ? "…" : "") + text.slice(from, at),
          hit: text.slice(at, at + words[0].length),
          after: text.slice(at + words[0].length, until) + (until < text.length ? "…" : ""),
        };
      }
    }
    return null;
  }

  function item(section, words, language) {
    const entry = document.createElement("li");
    const link = document.createElement("a");
    link.href = section.address;
    if (language !== "both") {
      const [page, place] = section.address.split("#");
      link.href = `${page}?lang=${language}${place ? `#${place}` : ""}`;
    }
    link.textContent = section.title;
    entry.append(link);
    const found = excerpt(section, words, language);
    if (found) {
      const text = document.createElement("p");
      const hit = document.createElement("mark");
      hit.textContent = found.hit;
      text.lang = found.field === "zh" ? "zh-Hant-TW" : "en";
      text.className = "excerpt";
      text.append(found.before, hit, found.after);
      entry.append(text);
    }
    return entry;
  }

  function search(query, language) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    return window.courseSections
      .map((section) => ({ section, words, points: score(section, words, language) }))
      .filter((hit) => hit.points > 0)
      .sort((a, b) => b.points - a.points);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const results = document.getElementById("course-results");
    const told = document.getElementById("course-found");
    const field = document.getElementById("course-query");
    const language = window.course.language();
    const show = () => {
      const hits = search(field.value, language);
      results.replaceChildren(...hits.map((hit) => item(hit.section, hit.words, language)));
      told.textContent = field.value.trim() ? `${hits.length} · ${field.value.trim()}` : "";
    };
    field.value = new URLSearchParams(location.search).get("q") || "";
    field.addEventListener("input", show);
    show();
  });
})();
