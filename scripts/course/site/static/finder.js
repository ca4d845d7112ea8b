// Finds sections of the course: by words of either language and script, or by an error message.
//
// MiniSearch ranks the words (BM25+). Ours are the pieces of Chinese, names in code as one word or
// as several, the texts of errors, and the rule that says that nothing fits.
window.Finder = (() => {
  "use strict";
  const FIELDS = ["title", "en", "zh", "code", "asked"];
  const BOOST = { title: 6, en: 1, zh: 1, code: 0.5, asked: 3 };
  const TITLED = 0.6; // of the words' weight, if the heading has them
  const TITLE = 3; // times the points, if the words are the heading
  const APART = 0.6; // times the points, if a name is there as several words, or words as a name
  const BIT = 0.2; // of the weight of a word, for a single Chinese character
  const LONG = 3; // from more Chinese characters on, each pair of them is a word of its own
  const BITS = 0.34; // of the Chinese characters, that may stand alone
  const NEAR = 2; // times the points more, if the words are neighbours in the section, too
  const OTHER = 0.2; // the boost of the language that is not shown
  const MESSAGE = 5; // from so many words on, the order of the words counts
  // Of the words' weight, for one or two words, up to four, more, or a message; rare words weigh more.
  const RARE = { few: 0.99, some: 0.65, many: 0.5, message: 0.75 };
  const MANY = 4; // words; with more of them, one that the course has nowhere says less:
  const NOWHERE = { few: 0.5, many: 4 }; // it weighs as much as a word of so many sections
  const ASKED = 0.65; // of the words' weight, that are in the questions which a section answers
  const ORDER = 0.7; // of the neighbours in a message, that are neighbours in the section, too
  const READ = 20_000; // characters of a paste, from its end
  const LINE = 500; // characters of a line
  const NAME = 40; // characters of a name that may be several words
  const HAN = /[\u3400-\u9fff]/;
  const RUN = /[\u3400-\u9fff]+|[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*/gu;
  const HUMP = /(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/; // between the words of a class's name
  const ERROR = /^(?:\[(?:rank)?\d+\]:\s*)?[\w.]*(?:Error|Exception|Warning|Interrupt|Exit|Iteration)\b/;
  const SMALL = new RegExp(
    "^(?:an?|the|of|to|in|on|for|from|at|by|with|without|and|or|vs|versus|than|is|are|was|do|does|did|can|i|it|my|me|its|will|should|" +
      "how|what|why|when|where|which|who|there|this|that|still|much|many|between|difference|\\d\\w*|" +
      "[的是和与在了吗呢要会有没个每把被从对让用做]|怎么|怎么办|如何|为什么|什么|可以|多少|哪个|哪张|没有|每个|需要|乘以)$",
    "i",
  );
  const QUESTION = /^(?:how|why|what|when|where|which|who|does|do|can|should|is|are|will)\b|\?$|\b(?:my|i|after|every|without|while)\b/i;

  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const singular = (word) => (/^[a-z]{3,}[^siu]s$/.test(word) ? word.slice(0, -1) : word);
  const pairs = (run) => Array.from({ length: run.length - 1 }, (_, at) => run.slice(at, at + 2));
  // A name's words: `node_rank`, `node-rank`, `nodeRank` are node, rank.
  const parts = (run) => run.split(/[-_]/).flatMap((part) => part.split(HUMP)).filter(Boolean).map((part) => singular(part.toLowerCase()));
  const runs = (text) => [...text.matchAll(RUN)].map(([run]) => run);

  const inARow = (text) => ` ${runs(text).flatMap((run) => (HAN.test(run) ? [run] : parts(run))).join(" ")} `;

  function tokens(text) {
    return runs(text).flatMap((run) => {
      if (HAN.test(run)) return [...run, ...pairs(run)];
      const words = parts(run);
      return words.length > 1 ? [...words, words.join("")] : words;
    });
  }

  // Two copies of one message differ in case, spaces and quotation marks, and often in numbers.
  const copied = (text) => text.toLowerCase().replace(/[‘’“”"`]/g, "'").replace(/\s+/g, " ").trim();
  const numberless = (text) => text.replace(/\d+/g, "0");

  // Whether a text has this piece, and not in the middle of a word.
  function has(text, piece) {
    const before = /^\w/.test(piece) ? "(?<!\\w)" : "";
    const after = /\w$/.test(piece) ? "(?!\\w)" : "";
    return text.includes(piece) && new RegExp(before + escaped(piece) + after).test(text);
  }

  return class Finder {
    // From `courseSearch`, which Sphinx has written as JSON, packed by gzip, in base64.
    static async load() {
      const bytes = Uint8Array.from(atob(window.courseSearch), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const finder = new Finder(await new Response(stream).json());
      const documents = finder.texts.map((texts, id) => ({ id, ...Object.fromEntries(texts.map((text, at) => [FIELDS[at], text])) }));
      await finder.index.addAllAsync(documents); // a few at a time: the page answers meanwhile
      return finder;
    }

    // `traditional[n]` and `simplified[n]` are one character; a query's `asked` means `meant`.
    constructor({ rows, traditional, simplified, words }) {
      this.rows = rows;
      this.scripts = new Map([...traditional].map((sign, at) => [sign, simplified[at]]));
      this.texts = rows.map((row) => FIELDS.map((name) => this.plain(row[name] || "")));
      this.titles = this.texts.map(([title]) => new Set(tokens(title)));
      this.questions = this.texts.map((texts) => new Set(tokens(texts.at(-1)))); // of FIELDS the last
      this.flat = []; // the words of a section in a row, once they are needed
      this.index = new MiniSearch({ fields: FIELDS, tokenize: tokens, processTerm: (term) => term });
      this.errors = rows.flatMap((row, id) => (row.texts || []).map((text) => ({ id, text: copied(text), last: Boolean(row.last) })));
      this.words = words.map(([asked, meant]) => {
        const [from, to] = [asked, meant].map((text) => this.plain(text));
        const edge = HAN.test(from) ? "" : "(?![\\p{L}\\p{N}])";
        const start = HAN.test(from) ? "" : "(?<![\\p{L}\\p{N}])";
        return [new RegExp(start + escaped(from).replace(/ /g, "[\\s_-]?") + edge, "giu"), ` ${to} `];
      });
    }

    // Where a section is, named as `page Heading`.
    place(name) {
      return this.rows.find((row) => `${row.at.split(".html")[0]} ${row.title.split(" · ")[0]}` === name).at;
    }

    // One script for all Chinese; the text keeps its length.
    plain(text) {
      return text.replace(/[\u3400-\u9fff]/g, (sign) => this.scripts.get(sign) || sign);
    }

    meant(query) {
      return this.words.reduce((text, [asked, meant]) => text.replace(asked, meant), this.plain(query));
    }

    // Errors whose text is in the message, or of whose text the message is a piece: longest first,
    // and those last that say only how a program ended.
    named(message) {
      const exact = copied(message);
      const folded = numberless(exact);
      const isPiece = exact.split(" ").length > 2;
      const best = new Map();
      for (const { id, text, last } of this.errors) {
        let points = 0;
        if (has(exact, text)) points = 2 * text.length;
        else if (/\d/.test(text) && has(folded, numberless(text))) points = text.length;
        else if (isPiece && has(numberless(text), folded)) points = folded.length;
        if (points) best.set(id, Math.max(best.get(id) || 0, last ? points / READ : points));
      }
      return [...best].sort((a, b) => b[1] - a[1]).map(([id]) => id);
    }

    isKnown(token) {
      return this.index.search(token).length > 0;
    }

    // Chinese as the longest pieces that the course has: in its text, and unless `shown` in questions.
    pieces(run, shown = false) {
      const isThere = (piece) => this.texts.some((texts) => (shown ? texts.slice(0, -1) : texts).some((text) => text.includes(piece)));
      const cut = [];
      for (let at = 0; at < run.length; at += cut.at(-1).length) {
        let end = at + 1;
        while (end < run.length && isThere(run.slice(at, end + 1))) end += 1;
        cut.push(run.slice(at, end));
      }
      return cut;
    }

    // The words of a query, each with the ways to write it: all tokens of one way have to be there.
    asked(text) {
      return runs(text).flatMap((run) => {
        if (HAN.test(run)) {
          const pieces = this.pieces(run);
          const cut = run.length > LONG ? pieces.flatMap((piece) => (piece.length > 2 ? pairs(piece) : piece)) : pieces;
          return cut.map((piece) => ({ word: piece, ways: [piece.length > 1 ? pairs(piece) : [piece]] }));
        }
        const words = parts(run);
        const joined = words.join("");
        const ways = words.length > 1 ? [[joined], words] : [words];
        if (words.length === 1 && joined.length > 5 && joined.length <= NAME && !this.isKnown(joined)) {
          for (let at = 3; at < joined.length - 2; at += 1) {
            const halves = [joined.slice(0, at), singular(joined.slice(at))];
            if (halves.every((half) => this.isKnown(half))) ways.push(halves);
          }
        }
        return [{ word: run.toLowerCase(), ways }];
      });
    }

    // Sections with any of the words: their points, and the share of the words' weight that they have.
    ranked(asked, boost) {
      const found = new Map();
      let all = 0;
      const nowhere = asked.length > MANY ? NOWHERE.many : NOWHERE.few;
      const different = new Map(asked.map((word) => [JSON.stringify(word.ways), word.ways]));
      for (const ways of different.values()) {
        const points = new Map(); // section → points for this word
        ways.forEach((way, number) => {
          for (const { id, score } of this.index.search({ combineWith: "AND", queries: way }, { boost })) {
            if (number && !this.row(id).includes(inARow(way.join(" ")))) continue;
            points.set(id, Math.max(points.get(id) || 0, number ? score * APART : score));
          }
        });
        // Somebody is still typing the last word.
        if (!points.size && ways === asked.at(-1).ways) {
          for (const { id, score } of this.index.search(ways[0].at(-1), { boost, prefix: true })) points.set(id, score);
        }
        const isBit = ways[0].length === 1 && ways[0][0].length === 1 && HAN.test(ways[0][0]); // a single character says little
        const weight = Math.log(1 + this.rows.length / (points.size || nowhere)) * (isBit ? BIT : 1);
        all += weight;
        for (const [id, more] of points) {
          const row = found.get(id) || { id, points: 0, weight: 0, titled: 0, asked: 0 };
          const within = (words) => (ways.some((way) => way.every((token) => words.has(token))) ? weight : 0);
          const titled = row.titled + within(this.titles[id]);
          const isAsked = row.asked + within(this.questions[id]);
          found.set(id, { id, points: row.points + more, weight: row.weight + weight, titled, asked: isAsked });
        }
      }
      return [...found.values()].map(({ id, points, weight, titled, asked: isAsked }) => ({
        id,
        points: points * (this.rows[id].weight || 1),
        share: weight / all,
        titled: titled / all,
        asked: isAsked / all,
      }));
    }

    // All words of a section, one after the other.
    row(id) {
      this.flat[id] ||= this.texts[id].map(inARow).join("|");
      return this.flat[id];
    }

    // How near a section's heading is to these words.
    heading(id, text) {
      const flat = (words) => runs(words).flatMap((run) => (HAN.test(run) ? run : parts(run))).join("");
      const titles = this.texts[id][0].split(/ · |[,、]/).map((title) => flat(title.replace(/[（(].*/, "")));
      const words = flat(text);
      return titles.includes(words) ? TITLE : titles.some((title) => title.startsWith(words)) ? TITLE / 2 : 1;
    }

    // The share of a message's neighbours that are neighbours in a section.
    order(id, message) {
      const words = inARow(message).trim().split(" ");
      const neighbours = [...new Set(words.slice(1).map((word, at) => ` ${words[at]} ${word} `))];
      return neighbours.length ? neighbours.filter((two) => this.row(id).includes(two)).length / neighbours.length : 1;
    }

    // hits: numbers of sections, best first. named: so many of them are pages of this very error.
    // isMessage: the query was read as a message. words: what to mark.
    find(query, language = "both") {
      const text = query.slice(-READ);
      const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
      if (!lines.length) return { hits: [], named: 0, isMessage: false, words: [] };
      const line = (lines.findLast((each) => ERROR.test(each)) || lines.at(-1)).slice(0, LINE);
      const meant = this.meant(line);
      const named = [...new Set([...this.named(text), ...this.named(meant)])];
      const asked = this.asked(meant);
      const isQuestion = HAN.test(meant) || QUESTION.test(meant);
      const isError = lines.length > 1 || (asked.length > 1 && ERROR.test(line));
      const isMessage = isError || (!isQuestion && asked.length >= MESSAGE);
      const boost = { ...BOOST };
      if (language !== "both") boost[language === "en" ? "zh" : "en"] = OTHER;
      const large = asked.filter(({ word }) => !SMALL.test(word));
      const sought = isError || !large.length ? asked : large;
      const least = isMessage ? RARE.message : sought.length > MANY ? RARE.many : sought.length > 2 || HAN.test(meant) ? RARE.some : RARE.few;
      // Chinese that falls into single characters is about something else.
      const bits = sought.filter(({ word }) => HAN.test(word));
      const alone = bits.filter(({ word }) => word.length === 1).length;
      const isElsewhere = alone > BITS * bits.reduce((sum, { word }) => sum + word.length, 0);
      const fitting = (sought.length && !isElsewhere ? this.ranked(sought, boost) : [])
        .filter((hit) => !named.includes(hit.id))
        .map((hit) => ({ ...hit, order: this.order(hit.id, meant) }))
        .filter((hit) => (hit.share >= least && (!isMessage || hit.order >= ORDER)) || (!isError && (hit.titled >= TITLED || (sought.length > 2 && hit.asked >= ASKED))))
        .map((hit) => ({ ...hit, points: hit.points * (1 + NEAR * hit.order) * Math.max(this.heading(hit.id, meant), this.heading(hit.id, line)) }))
        .sort((a, b) => b.points - a.points)
        .map((hit) => hit.id);
      const seen = runs(meant).filter((run) => HAN.test(run)).flatMap((run) => this.pieces(run, true));
      const words = [this.plain(line).toLowerCase(), ...seen.filter((word) => !SMALL.test(word)), ...sought.flatMap(({ word, ways }) => [word, ...ways.flat()])];
      return { hits: [...named, ...fitting], named: named.length, isMessage, words: [...new Set(words)] };
    }
  };
})();
