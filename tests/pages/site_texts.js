// What a reader of one language sees of a page of the site: texts of the other language, how many
// marked texts of each language are painted, and places that have nothing left in them.
(language) => {
  const HAN = /[\u3400-\u9fff]/;
  // Programs and what they printed, names that are the same in both, the choice itself.
  const NEUTRAL = "pre, code, kbd, script, style, noscript, .course-language, .cell_output, .kept, dialog";
  const painted = (element) => element.checkVisibility({ visibilityProperty: true });
  const foreign = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const parent = walker.currentNode.parentElement;
    if (!text || parent.closest(NEUTRAL) || !painted(parent)) continue;
    const marked = parent.closest("[lang]:not(html)")?.lang || "";
    // A name, such as DataParallel, stands in both; a sentence of English does not.
    const isEnglish = !marked && / [a-z]{2,} [a-z]{2,}/.test(text) && !HAN.test(text);
    if (language === "en" && (HAN.test(text) || marked.startsWith("zh"))) foreign.push(text);
    if (language === "zh" && (marked === "en" || isEnglish)) foreign.push(text);
  }
  // A link whose words are in both languages may stand in a sentence of one: it goes with that.
  const inside = { en: "[lang^=zh]:not(html, button) *", zh: "[lang=en]:not(html, button) *" };
  const count = (name) => {
    const all = document.querySelectorAll(`[lang^="${name}"]:not(html, button, ${inside[name]})`);
    return [...all].filter(painted).length;
  };
  const places = document.querySelectorAll("main :is(li, td, th, p, h1, h2, h3, h4, summary, ul, ol)");
  const full = (place) => place.innerText.trim() || place.querySelector("img, svg, input, button, canvas");
  const empty = [...places].filter((place) => painted(place) && place.textContent.trim() && !full(place));
  return { foreign, empty: empty.map((place) => place.outerHTML.slice(0, 120)), marked: { en: count("en"), zh: count("zh") } };
}
