// Reads the output of a failed launch: which rank failed first, with which message, and what the
// other ranks' messages are. Nothing that is pasted leaves the page, and all of it stays text.
(() => {
  "use strict";
  const LINE = 600; // characters of a line that are read
  const RANKS = 100_000; // a larger number is none
  const NAMED = 16; // ranks that one sentence names
  const MESSAGE = 12; // lines of a message
  // What may become of a rank: the more, the more it is a consequence.
  const OWN = 0; // an error of its own
  const DUMB = 1; // an exit code, and no word about it
  const WAITED = 2; // a time limit: another rank did not come
  const CLOSED = 3; // its connection is gone: another rank ended before
  const ENDED = 4; // asked to end, it left no error
  const SIGTERM = 15;
  const SIGNALS = { 1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM" };

  // `[rank1]: …` of PyTorch; `[default1]:[rank1]: …` of torchrun --tee; `[Rank 1]`, `[PG 0 Rank 1]` of nccl's watchdog.
  const PREFIX = /^.{0,60}?\[rank(\d+)\]:[ ]?/;
  const ROLE = /^\[[a-z]+(\d+)\]:/;
  const WATCHDOG = /\[(?:PG [^\]]*)?Rank (\d+)\]/;
  const SLURM = /^(?:srun|slurmstepd): error: \S+ tasks? (\d+)(?:-(\d+))?\b.*?: /;
  const STAMP = /\[E ?(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d+)?)/;
  const SPAWNED = /^-- Process (\d+) terminated with the following error|^.*\bprocess (\d+) terminated with (?:signal|exit code) \w+/;

  // What a traceback ends with; what a process says without one.
  const RAISED = /^(?:\w+\.)*(?:\w*(?:Error|Exception|Interrupt)|SystemExit|StopIteration|\w+(?:Failed|Failure|Timeout|Unsupported))(?::|$)/;
  const SAID =
    /Watchdog caught collective|detected by watchdog at work|Timeout at NCCL work|what\(\): |Fatal Python error|error: |can't open file|command not found|NCCL WARN|^Killed$|core dumped|Caught \w+ in replica|failed to pass monitoredBarrier/;
  const LAUNCHER = /(?:ChildFailedError|CalledProcessError)\b/;
  const LOG = /^(?:[WIE]\d{4} |\[[WIE]\d* ?)/;
  const GONE =
    /Connection (?:closed|reset) by (?:remote )?peer|Connection was likely closed|ncclRemoteError|remote process exited|Broken pipe|(?:recvValue|sendBytes|recvVector) failed|Application timeout caused pair closure|Stop_waiting response|ailed to recv, got 0 bytes|Socket recv failed/;
  const LIMIT =
    /detected by watchdog at work|Timeout at NCCL work|Timed out waiting \d+ ?ms|wait timeout after|Watchdog caught collective operation timeout|Socket Timeout|failed to pass monitoredBarrier|caused collective operation timeout|has timed out in/;
  const LINKED = /^(?:During handling of the above exception|The above exception was the direct cause)/;
  const NEXT = [/^(?:Traceback|-{10}|={10})/, LINKED, LOG, RAISED]; // what follows a message

  const level = (text) => (GONE.test(text) ? CLOSED : LIMIT.test(text) ? WAITED : OWN);
  const seconds = (month, day, hours, minutes, rest) => (((+month * 31 + +day) * 24 + +hours) * 60 + +minutes) * 60 + +rest;

  // The errors in lines of one process, or of several that write to one place.
  function errors(lines) {
    const found = [];
    let isTraceback = false;
    let isLinked = false;
    for (let at = 0; at < lines.length; at += 1) {
      const line = lines[at];
      const isEnd = isTraceback && /^\S/.test(line) && !line.startsWith("Traceback") && !LOG.test(line);
      if (line.startsWith("Traceback (most recent call last)")) isTraceback = true;
      else if (LINKED.test(line)) isLinked = true;
      else if (isEnd || RAISED.test(line) || SAID.test(line)) {
        // A message may have several lines.
        const more = lines.slice(at + 1, at + MESSAGE);
        const end = more.findIndex((other) => NEXT.some((pattern) => pattern.test(other)));
        const text = [line, ...more.slice(0, end < 0 ? MESSAGE : end)].join("\n").trim();
        const cause = isLinked ? found.pop() : null;
        found.push({ line: line.trim(), text: cause ? `${cause.text}\n${text}` : text, level: Math.max(level(line), cause?.level || OWN) });
        isTraceback = false;
        isLinked = false;
      }
    }
    return found;
  }

  // Of one process's errors: its own before what others did to it, and the last of these.
  const decisive = (found) => found.reduce((best, each) => (each.level <= best.level ? each : best), found[0]);

  // What torchrun reports of each failed rank at its end.
  function reports(lines) {
    const found = [];
    let isRoot = false;
    let entry = null;
    for (const line of lines) {
      const [, name, value] = /^\s*(time|rank|exitcode|traceback)\s*: (.*)/.exec(line) || [];
      if (/^\s*Root Cause \(first observed failure\)/.test(line)) isRoot = true;
      else if (/^\s*\[\d+\]:\s*$/.test(line)) found.push((entry = { isRoot, lines: [] }));
      else if (/^\s*(?:-{20,}|={20,})/.test(line)) entry = null;
      else if (entry && entry.lines.length) entry.lines.push(line.replace(/^ {2}/, ""));
      else if (name === "traceback") entry?.lines.push(value);
      else if (entry && name) entry[name] = value;
    }
    return found
      .filter(({ rank }) => /^\d/.test(rank))
      .map(({ time, rank, exitcode, ...rest }) => {
        const when = /(\d+)-(\d+)_(\d+):(\d+):(\d+)/.exec(time);
        return { ...rest, rank: parseInt(rank), code: parseInt(exitcode), time: when ? seconds(...when.slice(1)) : undefined };
      });
  }

  // Rank → its lines; and the lines that say no rank.
  function sorted(lines) {
    const ranks = new Map();
    const loose = [];
    let spawned = null;
    const of = (rank) => {
      if (rank < RANKS && !ranks.has(rank)) ranks.set(rank, { rank, lines: [] });
      return ranks.get(rank) || { lines: [] };
    };
    for (const line of lines) {
      const prefix = PREFIX.exec(line) || ROLE.exec(line);
      const slurm = SLURM.exec(line);
      const process = SPAWNED.exec(line);
      const watchdog = prefix ? null : WATCHDOG.exec(line);
      if (process) spawned = of(Number(process[1] || process[2]));
      if (process && process[2]) of(Number(process[2])).ended = line.trim();
      else if (prefix || watchdog) {
        const rank = of(Number((prefix || watchdog)[1]));
        const stamp = STAMP.exec(line);
        if (stamp && rank.stamp === undefined) rank.stamp = seconds(...stamp.slice(1));
        rank.lines.push(prefix ? line.slice(prefix[0].length) : line);
      } else if (slurm) {
        const last = Math.min(Number(slurm[2] || slurm[1]), RANKS);
        for (let task = Number(slurm[1]); task <= last; task += 1) of(task).ended = line.trim();
      } else (spawned ? spawned.lines : loose).push(line);
    }
    return { ranks, loose, of };
  }

  // Torchrun kills a rank that does not end when it is asked to.
  const isLate = (a, b) => a.code === -9 && !a.text && a.time > b.time;

  // Whether a failed before b.
  function isBefore(a, b) {
    if (isLate(a, b) || isLate(b, a)) return isLate(b, a);
    if (a.level !== b.level) return a.level < b.level;
    if (a.stamp !== undefined && b.stamp !== undefined && a.stamp !== b.stamp) return a.stamp < b.stamp;
    if (a.time !== undefined && b.time !== undefined && a.time !== b.time) return a.time < b.time;
    if (a.isRoot !== b.isRoot) return Boolean(a.isRoot);
    return false; // the order of the text
  }

  function judge(rank) {
    const own = errors(rank.lines);
    const told = errors(rank.report ? rank.report.lines : []);
    const error = told.length ? decisive(told) : own.length ? decisive(own) : null;
    const code = rank.report ? rank.report.code : undefined;
    Object.assign(rank, { time: rank.report?.time, isRoot: Boolean(rank.report?.isRoot), code });
    if (error) Object.assign(rank, error, { all: (told.length ? rank.report.lines : rank.lines).join("\n") });
    else if (rank.ended) Object.assign(rank, { line: rank.ended, text: rank.ended, level: /Terminated|SIGTERM/.test(rank.ended) ? ENDED : OWN });
    else if (code === -SIGTERM) rank.level = ENDED;
    else if (code < 0) Object.assign(rank, { line: `Signal ${-code} (${SIGNALS[-code] || "?"})`, level: OWN });
    else if (code !== undefined) Object.assign(rank, { level: DUMB, all: rank.report.lines.join("\n") });
    if (code < 0 && code !== -SIGTERM && rank.level !== undefined) rank.signal = `Signal ${-code} (${SIGNALS[-code] || "?"})`;
  }

  // What is said without a rank belongs to the one that failed first, if all say the same.
  function give(loose, ranks) {
    const found = errors(loose).filter(({ line }) => !LAUNCHER.test(line));
    if (!found.length) return null;
    const least = Math.min(...found.map((error) => error.level));
    const best = found.find((error) => error.level === least);
    const isOne = found.every((error) => error.line.replace(/\d+/g, "0") === best.line.replace(/\d+/g, "0"));
    const dumb = ranks.filter((rank) => rank.level === DUMB || (rank.level === OWN && rank.signal && !rank.text));
    const first = dumb.find((rank) => rank.isRoot) || dumb[0];
    const hasOthers = ranks.some((rank) => rank.level === OWN && rank.text);
    if (first && (isOne || first.signal) && !hasOthers) {
      Object.assign(first, best, { all: best.text, level: best.level });
      for (const rank of dumb) if (rank !== first && isOne && !rank.signal) Object.assign(rank, best, { all: best.text });
      return null;
    }
    return best;
  }

  // first: who failed first, and how; it has no rank where the text names none. The others by what
  // became of them. torchrun: the rank that it calls the root cause, if it is another.
  function read(pasted) {
    const lines = pasted
      .replace(/\x1b\[[\d;]*[A-Za-z]/g, "")
      .split(/\r?\n/)
      .map((line) => line.slice(0, LINE).replace(/^(?:> ?)+/, ""));
    const begin = lines.findIndex((line) => /^\s*Failures:\s*$/.test(line));
    const { ranks, loose, of } = sorted(begin < 0 ? lines : lines.filter((line, at) => at < begin || PREFIX.test(line)));
    for (const report of reports(begin < 0 ? [] : lines.slice(begin).filter((line) => !PREFIX.test(line)))) {
      const rank = of(report.rank);
      if (!rank.report || report.isRoot) rank.report = report;
    }
    for (const rank of ranks.values()) judge(rank);
    const failed = [...ranks.values()].filter((rank) => rank.level !== undefined);
    const unnamed = give(loose, failed);
    let first = failed.length ? failed.reduce((best, rank) => (isBefore(rank, best) ? rank : best)) : null;
    if (unnamed && (!first || first.level > unnamed.level)) first = unnamed;
    if (!first) return null;
    const others = failed.filter((rank) => rank !== first);
    const root = failed.find((rank) => rank.isRoot);
    const top = Math.max(-1, ...ranks.keys());
    const silent = Array.from({ length: top + 1 }, (_, rank) => rank).filter((rank) => !ranks.has(rank) || [undefined, ENDED].includes(ranks.get(rank).level));
    const alike = (line = "") => line.replace(/\d+/g, "0");
    const isSame = (rank) => rank.level === first.level && alike(rank.line) === alike(first.line);
    const numbers = (wanted) => others.filter(wanted).map(({ rank }) => rank).sort((a, b) => a - b);
    const isWaiting = first.level === WAITED || first.level === CLOSED;
    return {
      first,
      torchrun: root && first.rank !== undefined && root.level > first.level ? root.rank : null,
      same: numbers(isSame),
      own: numbers((rank) => (rank.level === OWN || (rank.level === DUMB && first.rank !== undefined)) && !isSame(rank) && !isLate(rank, first)),
      waited: numbers((rank) => rank.level === WAITED && !isSame(rank)),
      closed: numbers((rank) => rank.level === CLOSED && !isSame(rank)),
      ended: isWaiting ? [] : numbers((rank) => rank.level === ENDED || isLate(rank, first)),
      silent: isWaiting ? silent.filter((rank) => rank !== first.rank) : [],
    };
  }

  // ---- the page

  const HOWS = ["own", "dumb", "waited", "closed", "ended"]; // by level
  const FILES = ["sections", "minisearch", "finder"]; // over a megabyte: only who pastes needs them
  const pages = new URL("../", document.currentScript.src);
  let finder;

  function load(name) {
    return new Promise((done) => {
      const script = document.createElement("script");
      script.src = new URL(`_static/${name}.js`, pages);
      script.onload = done;
      document.head.append(script);
    });
  }

  async function found() {
    finder ||= Promise.all(FILES.map(load)).then(() => window.Finder.load());
    return finder;
  }

  // The page of the message; else one that fits what else this rank said; last, one that says only how it ended.
  function pageOf(first, ready) {
    const asked = [first.text, first.all, first.signal && `${first.signal} received by PID`].filter(Boolean);
    const fitting = asked.flatMap((text) => {
      const { hits, named } = ready.find(text);
      return hits.slice(0, named).map((id) => ready.rows[id]);
    });
    return fitting.find((row) => !row.last) || fitting[0];
  }

  function address(page, query = {}) {
    const made = new URL(page, pages);
    if (window.course.choice()) made.searchParams.set("lang", window.course.choice());
    for (const [name, value] of Object.entries(query)) made.searchParams.set(name, value);
    return made.href;
  }

  function name(element, ranks) {
    const isEnglish = element.closest("[lang]").lang === "en";
    const isInside = /[^.\s]\s*$/.test(element.previousSibling?.textContent || "");
    const word = `${isEnglish && !isInside ? "R" : "r"}ank${isEnglish && ranks.length > 1 ? "s" : ""}`;
    const numbers = ranks.length > NAMED ? [...ranks.slice(0, NAMED), "…"] : ranks;
    element.textContent = `${word} ${numbers.join(isEnglish ? ", " : "、")}`;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const field = document.getElementById("launch-output");
    const answer = document.getElementById("launch-answer");
    const line = document.getElementById("launch-line");
    const parts = (kind) => answer.querySelectorAll(`[data-${kind}]`);

    function tell(told) {
      const first = told?.first;
      const how = !first ? "nothing" : first.rank === undefined ? "unnamed" : HOWS[first.level];
      for (const part of parts("how")) part.hidden = part.dataset.how !== how;
      for (const part of parts("first")) if (first?.rank !== undefined) name(part, [first.rank]);
      const said = [first?.line, first?.signal].filter(Boolean);
      line.textContent = [...new Set(said)].join("\n");
      line.hidden = !said.length;
      for (const part of parts("others")) {
        const ranks = [told?.[part.dataset.others] ?? []].flat();
        part.hidden = !ranks.length;
        if (ranks.length) for (const place of part.querySelectorAll("b")) name(place, ranks);
      }
      for (const part of parts("page")) part.hidden = true;
    }

    function tellPage(first, row, ready) {
      for (const part of parts("page")) {
        part.hidden = row ? part.dataset.page !== "there" : part.dataset.page === "there" || !first.line;
        if (part.hidden) continue;
        for (const link of part.querySelectorAll("a")) {
          link.href = row ? address(row.at) : address("search.html", { q: first.line || "" });
          if (row) link.firstElementChild.textContent = row.title;
        }
      }
      for (const link of parts("section")) link.href = address(ready.place(link.dataset.section));
    }

    async function show() {
      const pasted = field.value;
      answer.hidden = !pasted.trim();
      if (answer.hidden) return;
      const told = read(pasted);
      tell(told);
      const ready = await found();
      if (field.value !== pasted) return; // somebody goes on typing
      // A piece of a message looks like no error: that it is one, its page says.
      const asked = told || { first: { line: pasted.trim().split("\n").at(-1).slice(0, LINE), text: pasted } };
      const row = pageOf(asked.first, ready);
      if (!told && !row) return;
      tell(asked);
      tellPage(asked.first, row, ready);
    }

    field.addEventListener("input", show);
    document.addEventListener("course-language", show);
    if (field.value) show(); // a browser may have kept it
  });
  window.Reader = { read, found, pageOf };
})();
