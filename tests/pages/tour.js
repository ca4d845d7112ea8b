// What a look at each slide, and at each step of one, finds wrong: `look` is a function's source.
([look, count]) => {
    const problems = [];
    const find = eval(look);
    const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    press("Home");
    for (let n = 0; n < count; n++) {
        const place = document.querySelector("#counter").textContent;
        const found = find(document.querySelector("section.on"));
        problems.push(...found.map((problem) => `${place}: ${problem}`));
        press("ArrowRight");
    }
    const last = document.querySelectorAll("section").length;
    return location.hash.endsWith(`/${last}`) ? problems : ["stopped"];
}
