// The search of the site: every section is one entry of courseSections, which Sphinx has written
// as JSON, packed by gzip, in base64.
//
// A query is cut into words; Chinese has no spaces, so its words are the longest pieces that the
// course has. A section must have all words; if none has, those with most of them are shown, as for
// a whole line of an error message. Hits in the shown language come first, none is left out.
(() => {
  "use strict";
  const AROUND = 80; // characters of an excerpt on each side of the hit
  const MOST = 0.6; // the share of the words that must be there, if no section has all
  const WORTH = { title: 20, phrase: 60, error: 40 };
  const FIELDS = ["en", "zh", "code"];
  const HAN = /[\u3400-\u9fff]/;
  const OR = ", "; // between the texts of one error in its page's title

  let folded = []; // the sections, in small letters, once they are unpacked

  async function unpacked() {
    const bytes = Uint8Array.from(atob(window.courseSections), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const sections = await new Response(stream).json();
    return sections.map((section) => ({
      section,
      title: section.title.toLowerCase(),
      en: (section.en || "").toLowerCase(),
      zh: (section.zh || "").toLowerCase(),
      code: (section.code || "").toLowerCase(),
    }));
  }

  const count = (text, word) => text.split(word).length - 1;

  const isKnown = (word) => folded.some((row) => FIELDS.some((name) => row[name].includes(word)));

  // A run of Chinese as the longest pieces that are somewhere in the course, of two characters at
  // least: 梯度同步 is found where both 梯度 and 同步 are.
  function pieces(run) {
    const cut = [];
    for (let at = 0; at < run.length; ) {
      let end = run.length;
      while (end > at + 2 && !isKnown(run.slice(at, end))) end -= 1;
      cut.push(run.slice(at, end));
      at = end;
    }
    return cut;
  }

  // The words of a query: pieces of Chinese, and what stands between spaces.
  function wordsOf(query) {
    const runs = query.match(/[\u3400-\u9fff]+|[^\s\u3000-\u9fff\uff00-\uffef]+/gu) || [];
    return [...new Set(runs.flatMap((run) => (HAN.test(run) ? pieces(run) : [run])))];
  }

  // How well a section answers, and the share of the words that it has.
  function judge(row, query, words, language) {
    let points = 0;
    let has = 0;
    for (const word of words) {
      const inTitle = count(row.title, word);
      const hits = { en: count(row.en, word), zh: count(row.zh, word) };
      const neutral = count(row.code, word);
      const shown = language === "both" ? hits.en + hits.zh : hits[language];
      const other = hits.en + hits.zh - shown;
      if (inTitle + shown + other + neutral) has += 1;
      points += WORTH.title * Math.min(inTitle, 1) + Math.min(shown, 9) + Math.min(neutral, 9) / 10 + Math.min(other, 9) / 100;
    }
    // A message of several words is looked up among the errors first.
    if (words.length > 1 && [row.title, ...FIELDS.map((name) => row[name])].some((text) => text.includes(query))) {
      points += WORTH.phrase + (row.section.error ? WORTH.error : 0);
    } else if (words.length > 3 && row.section.error) {
      points += WORTH.error;
    }
    // A pasted message that has one of the texts of an error's page is about that error.
    const texts = row.title.split(OR).filter((text) => text.length > 5);
    const named = Boolean(row.section.error) && texts.some((text) => query.includes(text));
    return { section: row.section, row, points, named, share: has / words.length };
  }

  function search(text, language) {
    const query = text.trim().toLowerCase().replace(/\s+/g, " ");
    const words = wordsOf(query);
    if (!words.length) return { words, hits: [], whole: true };
    const judged = folded.map((row) => judge(row, query, words, language));
    const whole = judged.some((hit) => hit.share === 1);
    const hits = judged
      .filter((hit) => hit.named || hit.share >= (whole ? 1 : MOST))
      .sort((a, b) => b.named - a.named || b.share - a.share || b.points - a.points);
    return { words: words.includes(query) ? words : [query, ...words], hits, whole };
  }

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

  // Text with every word of the query marked.
  function marked(text, words) {
    const made = document.createDocumentFragment();
    const escaped = [...words].sort((a, b) => b.length - a.length).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    text.split(new RegExp(`(${escaped.join("|")})`, "gi")).forEach((piece, number) => {
      if (number % 2 === 0) return made.append(piece);
      const mark = document.createElement("mark");
      mark.textContent = piece;
      return made.append(mark);
    });
    return made;
  }

  // The piece of a section around the first hit, from the shown language if it is there; its
  // beginning, if only the title has the words.
  function excerpt(hit, words, language) {
    const order = language === "zh" ? ["zh", "en", "code"] : FIELDS;
    for (const word of [...words, ""]) {
      for (const name of order) {
        const at = hit.row[name].indexOf(word);
        if (at < 0) continue;
        const text = hit.section[name] || "";
        if (!text) continue;
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

  function item(hit, words, language) {
    const entry = document.createElement("li");
    const link = document.createElement("a");
    const [page, place] = hit.section.at.split("#");
    const choice = window.course.choice();
    link.href = `${page}${choice ? `?lang=${choice}` : ""}#${place}`;
    if (hit.section.page) link.append(bilingual(hit.section.page, words), " › ");
    link.append(bilingual(hit.section.title, words));
    entry.append(link, excerpt(hit, words, language));
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
      const asked = field.value.trim() !== "";
      const { words, hits, whole } = search(field.value, language);
      results.replaceChildren(...hits.map((hit) => item(hit, words, language)));
      for (const number of document.querySelectorAll("[data-found]")) number.textContent = hits.length;
      say("found", asked && hits.length > 0);
      say("partly", asked && hits.length > 0 && !whole);
      say("nothing", asked && hits.length === 0);
    };
    field.value = new URLSearchParams(location.search).get("q") || "";
    if (!field.value) field.focus();
    folded = await unpacked();
    results.removeAttribute("aria-busy");
    field.addEventListener("input", show);
    document.addEventListener("course-language", show);
    show();
  });
})();
