// Predictions as cards. This script is deferred: the page is there when it runs.
(() => {
  "use strict";

  // The results of one prediction.
  function reveal(number) {
    for (const hidden of document.querySelectorAll(`.guess-${number}`)) {
      hidden.classList.add("shown");
    }
    document.querySelector(`[data-guess="${number}"]`)?.remove();
  }

  function revealTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const card = target && target.closest(".guess:not(.shown)");
    const number = card && [...card.classList].map((name) => /^guess-(\d+)$/.exec(name)).find(Boolean);
    if (number) {
      reveal(number[1]);
      target.scrollIntoView();
    }
  }

  for (const button of document.querySelectorAll("[data-guess]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const first = document.querySelector(`.guess-${button.dataset.guess}`);
      reveal(button.dataset.guess);
      first.tabIndex = -1;
      first.focus({ preventScroll: true });
    });
  }
  revealTarget();
  window.addEventListener("hashchange", revealTarget);
})();
