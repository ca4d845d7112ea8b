// Boxes of a slide that stand in its margins or behind the buttons, and texts larger than their box.
(slide) => {
    const box = slide.getBoundingClientRect();
    const bar = document.querySelector("nav").getBoundingClientRect();
    const phone = innerWidth < 700;
    const margin = getComputedStyle(slide);
    const floor = box.bottom - (phone ? bar.height : parseFloat(margin.paddingBottom) - 1);
    const rightEdge = box.right - parseFloat(margin.paddingRight);
    const leftEdge = box.left + parseFloat(margin.paddingLeft);
    const wide = document.documentElement.scrollWidth > innerWidth;
    const problems = wide ? ["the page is too wide"] : [];
    for (const e of slide.querySelectorAll(":not(.art, .art *)")) {
        if (!e.checkVisibility() || e.closest(".notes")) continue;
        const { left, right, top, bottom } = e.getBoundingClientRect();
        const aside = left < leftEdge - 1 || right > rightEdge + 1;
        const out = aside || top < box.top || bottom > floor;
        const text = e.innerText && !e.children.length;
        const covered = !phone && text && right > bar.left && bottom > bar.top;
        const inline = e.closest("svg") || getComputedStyle(e).display === "inline";
        const larger = e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 4;
        const cut = !inline && e.innerText && larger;
        if (out || covered || cut) problems.push(`${e.tagName}.${e.className} ${e.textContent}`);
    }
    return problems;
}
