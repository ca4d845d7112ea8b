// A lesson: predictions, long outputs, figures, tips. This script is deferred: the page is there
// when it runs, and without it everything is shown.
(() => {
  "use strict";

  const words = (english, chinese) =>
    `<span lang="en">${english}</span><span class="between"> · </span>` +
    `<span lang="zh-Hant-TW">${chinese}</span>`;

  function focusOn(element) {
    element.tabIndex = -1;
    element.focus({ preventScroll: true });
  }

  // The results of one prediction.
  function reveal(number) {
    for (const hidden of document.querySelectorAll(`.guess-${number}`)) {
      hidden.classList.add("shown");
    }
    document.querySelector(`[data-guess="${number}"]`)?.remove();
  }

  function numberOf(card) {
    const names = card ? [...card.classList] : [];
    return names.map((name) => /^guess-(\d+)$/.exec(name)?.[1]).find(Boolean);
  }

  // A link may lead into something hidden.
  function revealTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const number = numberOf(target.closest(".guess:not(.shown)"));
    if (number) reveal(number);
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
    if (number || target.closest("details")) target.scrollIntoView();
  }

  for (const button of document.querySelectorAll("[data-guess]")) {
    button.addEventListener("click", () => {
      const results = [...document.querySelectorAll(`.guess-${button.dataset.guess}`)];
      reveal(button.dataset.guess);
      focusOn(results.find((result) => result.checkVisibility()) || results[0]);
    });
  }

  // Long outputs: their first lines, until all are wanted.
  for (const button of document.querySelectorAll(".unfold")) {
    const output = button.previousElementSibling;
    button.addEventListener("click", () => {
      const shown = output.classList.toggle("shown");
      button.setAttribute("aria-expanded", String(shown));
      if (!shown) output.scrollIntoView({ block: "nearest" });
    });
  }

  // Code that scrolls can be scrolled by the keyboard.
  for (const code of document.querySelectorAll("article pre")) {
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  }

  for (const link of document.querySelectorAll("a.headerlink")) {
    link.title = link.ariaLabel = "Link to this heading · 這個標題的連結";
  }

  // A link to each cell of an exercise. Elsewhere headings are what to link to: the number of a cell
  // below one changes when the section gets another cell.
  for (const cell of document.querySelectorAll("article .exercise .cell[id]")) {
    const link = document.createElement("a");
    link.className = "headerlink to-cell";
    link.href = `#${cell.id}`;
    link.textContent = "#";
    link.setAttribute("aria-label", "Link to this cell · 這一格的連結");
    cell.prepend(link);
  }

  // Figures, enlarged.
  const view = document.createElement("dialog");
  view.className = "enlarged";
  view.innerHTML = `<button class="guessed" type="button" autofocus>${words("Close", "關閉")}</button><img alt="">`;
  view.querySelector("button").addEventListener("click", () => view.close());
  view.addEventListener("click", (event) => {
    if (event.target === view) view.close();
  });
  document.body.append(view);
  for (const image of document.querySelectorAll(".cell_output img")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "enlarge";
    button.title = "Enlarge · 放大";
    image.before(button);
    button.append(image);
    button.addEventListener("click", () => {
      const large = view.querySelector("img");
      large.src = image.src;
      large.alt = image.alt;
      view.setAttribute("aria-label", image.alt);
      view.showModal();
    });
  }

  // Figures wait until the page is there, and no longer: paper would show empty places.
  addEventListener("load", () => {
    for (const image of document.querySelectorAll("article img")) image.loading = "eager";
  });

  // Tips: the link's title, where fingers and the keyboard find it, too.
  const box = document.createElement("div");
  box.className = "tip-box";
  box.id = "tip-box";
  box.popover = "manual";
  document.body.append(box);
  let asked = null;
  let closing = 0;

  function hideTip() {
    clearTimeout(closing);
    if (asked) asked.removeAttribute("aria-describedby");
    asked = null;
    box.hidePopover();
  }

  function showTip(link) {
    clearTimeout(closing);
    if (asked === link) return;
    if (asked) hideTip();
    asked = link;
    const text = document.createElement("p");
    text.textContent = link.dataset.tip;
    const more = document.createElement("a");
    more.href = link.href;
    more.innerHTML = words("glossary", "詞彙表");
    box.lang = link.closest("[lang]").lang;
    box.replaceChildren(text, more);
    link.setAttribute("aria-describedby", box.id);
    box.showPopover();
    const place = link.getClientRects()[0];
    const left = Math.min(place.left, innerWidth - box.offsetWidth - 8);
    const below = place.bottom + box.offsetHeight + 8 < innerHeight;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${below ? place.bottom + 4 : place.top - box.offsetHeight - 4}px`;
  }

  function hideSoon() {
    clearTimeout(closing);
    closing = setTimeout(hideTip, 250);
  }

  for (const link of document.querySelectorAll("a.tip")) {
    link.dataset.tip = link.title;
    link.removeAttribute("title");
    let touched = false;
    link.addEventListener("mouseenter", () => showTip(link));
    link.addEventListener("mouseleave", hideSoon);
    link.addEventListener("focus", () => {
      if (!touched) showTip(link);
    });
    link.addEventListener("blur", hideSoon);
    link.addEventListener("pointerdown", (event) => {
      touched = event.pointerType === "touch" && asked !== link;
    });
    link.addEventListener("click", (event) => {
      if (!touched) return;
      event.preventDefault(); // the first tap explains, the second one follows the link
      touched = false;
      showTip(link);
    });
  }
  box.addEventListener("mouseenter", () => clearTimeout(closing));
  box.addEventListener("mouseleave", hideSoon);
  box.addEventListener("focusin", () => clearTimeout(closing));
  box.addEventListener("focusout", hideSoon);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && asked) hideTip();
  });
  addEventListener("scroll", () => asked && hideTip(), { passive: true });

  revealTarget();
  addEventListener("hashchange", revealTarget);
})();
