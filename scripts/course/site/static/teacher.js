// The teacher's view, `?teach=1`: one piece of the lesson at a time, in large type. A result is
// hidden until it is asked for.
(() => {
  "use strict";
  const lesson = document.querySelector("article.bd-article");
  if (!lesson || !lesson.querySelector(".cell")) return;
  const root = document.documentElement;
  const words = (english, chinese) =>
    `<span lang="en">${english}</span><span class="between"> · </span>` +
    `<span lang="zh-Hant-TW">${chinese}</span>`;

  function address(teach) {
    const here = new URL(location.href);
    if (teach) here.searchParams.set("teach", "1");
    else here.searchParams.delete("teach");
    here.hash = "";
    return here;
  }

  // The pieces: a code cell with its results, or the prose up to the next one or the next heading.
  function gather() {
    const found = [];
    let prose = null;
    function walk(parent) {
      for (const node of parent.children) {
        if (node.matches("section")) {
          if (found.length > 1) prose = null; // what stands ahead of the title belongs to it
          walk(node);
          prose = null;
        } else if (node.matches(".cell, details.files, details.solution")) {
          prose = null;
          found.push([node]);
        } else if (!node.matches("span, .teacher-link, button")) {
          if (!prose || node.matches("h2, h3, h4")) found.push((prose = []));
          prose.push(node);
        }
      }
    }
    walk(lesson);
    return found;
  }

  const link = document.createElement("p");
  link.className = "teacher-link";
  link.innerHTML = `<a href="${address(true)}">${words("Teacher’s view", "教師檢視")}</a>`;
  lesson.querySelector("h1")?.after(link);

  const pieces = gather();
  const results = (piece) => piece.flatMap((node) => [...node.querySelectorAll(".cell_output")]);
  let at = 0;
  let bar = null;

  function show(number) {
    at = Math.max(0, Math.min(pieces.length - 1, number));
    pieces.forEach((piece, index) => {
      for (const node of piece) node.classList.toggle("on-stage", index === at);
    });
    for (const result of results(pieces[at])) result.classList.add("awaited");
    const awaited = results(pieces[at]).length > 0;
    bar.querySelector("output").textContent = `${at + 1} / ${pieces.length}`;
    bar.querySelector("[data-go=result]").disabled = !awaited;
    bar.querySelector("[data-go=back]").disabled = at === 0;
    bar.querySelector("[data-go=on]").disabled = at === pieces.length - 1;
    scrollTo(0, 0);
  }

  function result() {
    for (const shown of results(pieces[at])) shown.classList.remove("awaited");
    bar.querySelector("[data-go=result]").disabled = true;
  }

  function leave() {
    root.classList.remove("teach");
    bar.hidden = true;
    removeEventListener("keydown", press);
    try {
      history.replaceState(history.state, "", address(false));
    } catch {
      // some browsers forbid this on file://
    }
    markLinks(false);
    pieces[at][0].scrollIntoView();
  }

  const ACTS = { back: () => show(at - 1), on: () => show(at + 1), result, leave };
  const KEYS = { ArrowLeft: "back", PageUp: "back", ArrowRight: "on", PageDown: "on", Escape: "leave", " ": "result", Enter: "result" };

  function press(event) {
    const act = KEYS[event.key];
    if (!act || event.altKey || event.ctrlKey || event.metaKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) return;
    if (act === "result" && event.target.closest("button, a, summary")) return; // it presses that
    event.preventDefault();
    ACTS[act]();
  }

  // Links within the site keep the view, as they keep the language.
  function markLinks(teach) {
    for (const other of document.querySelectorAll("a[href]")) {
      const written = other.getAttribute("href");
      if (/^([a-z]+:|#)/i.test(written) && !written.startsWith("file:") && !other.href.startsWith(location.origin)) continue;
      if (written.startsWith("#") || !other.pathname.endsWith(".html") || other.closest(".teacher-link")) continue;
      const target = new URL(other.href);
      if (teach) target.searchParams.set("teach", "1");
      else target.searchParams.delete("teach");
      other.href = target.href;
    }
  }

  function begin() {
    root.classList.add("teach");
    bar = document.createElement("div");
    bar.className = "teacher-bar";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Teacher’s view · 教師檢視");
    bar.innerHTML =
      `<button type="button" data-go="back">← ${words("back", "上一格")}</button>` +
      `<output aria-live="polite"></output>` +
      `<button type="button" data-go="result">${words("result (Space)", "結果（空白鍵）")}</button>` +
      `<button type="button" data-go="on">${words("next", "下一格")} →</button>` +
      `<button type="button" data-go="leave">${words("leave (Esc)", "離開（Esc）")}</button>`;
    for (const button of bar.querySelectorAll("button")) {
      button.addEventListener("click", () => ACTS[button.dataset.go]());
    }
    document.body.append(bar);
    addEventListener("keydown", press);
    markLinks(true);
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const first = target ? pieces.findIndex((piece) => piece.some((node) => node.contains(target) || target.contains(node))) : 0;
    show(first);
  }

  if (new URLSearchParams(location.search).get("teach") === "1") begin();
})();
