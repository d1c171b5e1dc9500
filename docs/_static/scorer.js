// The order of search results. Sphinx gives every page that contains a word the same score; here, a
// word counts more the fewer pages have it, and more in the keywords and titles of a page than in its
// text. Tutorials and how-to pages come before explanations, the reference and messages, and records
// of decisions last. A page that lacks a word of the query is found, too, if it fits well otherwise.
// conf.py puts two tables before this: KEYWORDS, of keywords.toml, and OPTIONS, with the names of the
// functions that take each.
const IN_KEYWORDS = 5;
const IN_TITLE = 4;
const IN_SECTION = 2;
const IN_TEXT = 1;
const IN_PART = 0.4; // a word that begins with the one of the query, or has it after an underscore
const LATER = [
  [/^(design\/|changelog|releasing|versioning|contributing|testing)/, 0.3],
  [/^(reliability|cuda-agreement|performance)/, 0.7],
  [/^(index|errors|reference\/|limits|how-it-works|gallery|microcircuit)/, 0.8],
];
const SETTING = /^(kernbridge|brainevent)_[a-z_]+$/; // a variable of the environment

let asked = ""; // the query
let best = 0; // score of the best page, and of the next
let second = 0;
let scores = new Map(); // of pages, by name

const parse = Search._parseQuery;
Search._parseQuery = (query) => {
  asked = query.trim();
  return parse(query);
};

// The words of a text, as the index has them.
const stems = new Map();
function stemmed(text) {
  if (!stems.has(text)) {
    const stemmer = new Stemmer();
    stems.set(text, splitQuery(text.toLowerCase()).map((word) => stemmer.stemWord(word)));
  }
  return stems.get(text);
}

// The pages whose text or titles have a word: their numbers in the index, and a weight for each.
function pagesWith(word) {
  const index = Search._index;
  const found = new Map();
  const add = (files, weight) => {
    for (const file of [files].flat()) found.set(file, Math.max(found.get(file) ?? 0, weight));
  };
  for (const [words, weight] of [[index.terms, IN_TEXT], [index.titleterms, IN_SECTION]]) {
    if (Object.hasOwn(words, word)) add(words[word], weight);
    else if (word.length > 2)
      for (const [longer, files] of Object.entries(words))
        if (`_${longer}`.includes(`_${word}`)) add(files, weight * IN_PART);
  }
  index.docnames.forEach((page, file) => {
    if (stemmed(index.titles[file]).includes(word)) add(file, IN_TITLE);
    if (stemmed(KEYWORDS[page] ?? "").includes(word)) add(file, IN_KEYWORDS);
    if (SETTING.test(word) && page === "environment" && found.has(file)) add(file, IN_KEYWORDS);
  });
  return found;
}

// The section whose title has all words, unless the title of the page has them.
function sectionWith(words, file) {
  const has = (title) => words.every((word) => stemmed(title).includes(word));
  if (has(Search._index.titles[file])) return undefined;
  const sections = Object.entries(Search._index.alltitles).flatMap(([title, places]) =>
    has(title) ? places.filter((p) => p[0] === file && p[1]).map((p) => [title, p[1]]) : []);
  return sections.sort(([a], [b]) => a.length - b.length)[0];
}

Search.performTermsSearch = (searchTerms) => {
  const index = Search._index;
  const query = asked.toLowerCase();
  const found = [...searchTerms].map((word) => [word, pagesWith(word)]).filter(([, in_]) => in_.size);
  const rarity = ([, in_]) => Math.log(1 + index.docnames.length / in_.size);
  const all = found.reduce((sum, word) => sum + rarity(word), 0);
  const words = found.map(([word]) => word);
  scores = new Map();
  const results = [];
  index.docnames.forEach((page, file) => {
    const sum = found.reduce((sum, word) => sum + rarity(word) * (word[1].get(file) ?? 0), 0);
    if (!sum) return;
    const phrases = (KEYWORDS[page] ?? "").toLowerCase().split(", ");
    const whole = [...phrases, index.titles[file].toLowerCase()].includes(query) ? IN_KEYWORDS : 0;
    const later = LATER.find(([pages]) => pages.test(page))?.[1] ?? 1;
    scores.set(page, (sum / all + whole) * later);
    const [title, anchor] = sectionWith(words, file) ?? [];
    results.push([
      page,
      title ? `${index.titles[file]} > ${title}` : index.titles[file],
      anchor ? `#${anchor}` : "",
      null,
      scores.get(page),
      index.filenames[file],
      SearchResultKind.text,
    ]);
  });
  [best = 0, second = 0] = [...scores.values()].sort((a, b) => b - a);
  const isComplete = (file) => found.every(([, in_]) => in_.has(file));
  return results.filter(([page, , , , score]) =>
    score >= best / 2 || isComplete(index.docnames.indexOf(page)));
};

// Where the reference has a name: the page and the anchor.
function entryOf(name) {
  const [, module, last] = name.match(/^(.*)\.(\w+)$/);
  const entry = (Search._index.objects[module] ?? []).find((object) => object[4] === last);
  return entry && [entry[0], `#${entry[3] || name}`];
}

// A name under another module than the one that documents it, such as a name of BrainEvent, has its
// entry there. An option has the entries of the functions that take it.
const entries = Search.performObjectSearch;
Search.performObjectSearch = (term, terms) => {
  const found = entries(term, terms);
  const isLast = term === [...terms].at(-1);
  if (!found.length && isLast) found.push(...entries(term, new Set([term])));
  if (terms.size > 1 || !Object.hasOwn(OPTIONS, term)) return found;
  let isFirst = 1;
  for (const name of OPTIONS[term]) {
    const [file, anchor] = entryOf(name) ?? [];
    if (file === undefined) continue; // another name of a function, which the reference lacks
    const { docnames, titles, filenames } = Search._index;
    const place = `option, in ${titles[file]}`;
    const title = `${name}(${term}=)`;
    const kind = SearchResultKind.object;
    found.push([docnames[file], title, anchor, place, isFirst, filenames[file], kind]);
    isFirst = 0;
  }
  return found;
};

// Names that are words, such as `kernel`, stand after the page that explains the word, if there is one,
// and of options that are words, only the first does.
function ofEntry(title, isFirst) {
  const name = title.replace(/\(.*/, "");
  const isOption = name !== title;
  const [wanted, last] = [asked, name].map((text) => text.split(".").at(-1));
  if (!isOption && last.toLowerCase() !== wanted.toLowerCase()) return best / 5;
  const isWord = /^[a-z]+$/.test(isOption ? wanted : last) && !asked.includes(".");
  if (isWord && isOption && !isFirst) return best / 5;
  const score = isWord ? Math.max((best + second) / 2, second + 0.002) : best + 1;
  const isSame = name.toLowerCase() === asked.toLowerCase() ? 1 : last === wanted ? 0.01 : 0;
  return score + (isWord ? 0 : isSame) - (isOption ? 0.001 : 0) - name.length / 1e5;
}

var Scorer = {
  score: ([page, title, _anchor, _description, score, _file, kind]) => {
    if (kind === SearchResultKind.text) return score;
    if (kind === SearchResultKind.title) return (scores.get(page) ?? 0) + score / 100;
    if (kind === SearchResultKind.index) return best / 10;
    return ofEntry(title, score > 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
