"use strict";
// Will it fit? The same sums as `ullage predict`, draw by draw. Nothing is sent anywhere, nothing is kept.
(function () {
  const root = document.getElementById("fit");
  const theme = document.getElementById("theme");
  theme.addEventListener("click", function () {
    const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    theme.setAttribute("aria-pressed", String(!dark));
  });
  if (!root) return;

  const data = JSON.parse(document.getElementById("draws").textContent);
  const $ = (name) => root.querySelector(`[name=${name}]`);
  const KNOBS = ["layers", "heads", "d_head", "d_model", "d_ff"];
  const BITS = { bf16: 16, f16: 16, f32: 32, f64: 64 };
  const RAISES = {
    bandwidth: "more or wider heads raise it",
    storage: "more parameters raise it",
    weights: "more parameters raise it",
  };

  // ── numbers ──────────────────────────────────────────────────────────────────────────────────

  for (const fit of data.fits) {
    const columns = fit.columns.map(({ low, step, numbers }) => {
      const bytes = atob(numbers), column = new Float64Array(fit.draws).fill(low);
      for (let i = 0; 3 * i < bytes.length; i++) {
        const place = [0, 1, 2].reduce((sum, k) => 256 * sum + bytes.charCodeAt(3 * i + k), 0);
        column[i] = low + step * place;
      }
      return column;
    });
    const column = (place) => columns[place];
    const models = fit.models.length + 1;
    const middles = fit.subjects.length * models;
    fit.middle = (subject, model) => column(subject * models + model);
    fit.shape = (subject, name) => column(middles + subject * fit.shapes.length + fit.shapes.indexOf(name));
    fit.growth = column(middles + fit.subjects.length * fit.shapes.length);
  }

  const sigmoid = (tilt) => 1 / (1 + Math.exp(-Math.min(Math.max(tilt, -700), 700)));

  // The chance of `from` or more twentieths, by the beta-binomial.
  function atLeast(expected, concentration, from) {
    const inside = data.leastSkill + (1 - 2 * data.leastSkill) * expected;
    const a = inside * concentration, b = (1 - inside) * concentration;
    const rising = [0], falling = [0];
    let whole = 0;
    for (let k = 0; k < data.steps; k++) {
      rising.push(rising[k] + Math.log(a + k));
      falling.push(falling[k] + Math.log(b + k));
      whole += Math.log(concentration + k);
    }
    let sum = 0;
    for (let k = from; k <= data.steps; k++) {
      sum += Math.exp(data.logChoose[k] + rising[k] + falling[data.steps - k] - whole);
    }
    return sum;
  }

  function evaluate(fit, subject, model, log2Budget, log2Demand) {
    const middle = fit.middle(subject, model === null ? fit.models.length : model);
    const grown = model === null ? log2Budget : 0;
    const shape = {};
    for (const name of fit.shapes) shape[name] = fit.shape(subject, name);
    const learns = new Float64Array(fit.draws), skill = new Float64Array(fit.draws);
    for (let i = 0; i < fit.draws; i++) {
      const share = sigmoid(shape.slope[i] * (middle[i] + grown * fit.growth[i] - log2Demand));
      const low = shape.low[i], high = shape.high[i];
      skill[i] = low + (high - low) * share;
      if (fit.scatter !== "mixture") {
        learns[i] = atLeast(skill[i], shape.concentration[i], data.learned);
      } else {
        const top = shape.top[i], learned = ((high - low) / (top - low)) * share;
        learns[i] = learned * atLeast(top, shape.concentration_learned[i], data.learned) +
          (1 - learned) * atLeast(low, shape.concentration[i], data.learned);
      }
    }
    return { probability: interval(learns), skill: interval(skill) };
  }

  function interval(draws) {
    const sorted = draws.slice().sort();
    const at = (share) => {
      const place = share * (sorted.length - 1), below = Math.floor(place);
      const above = Math.min(below + 1, sorted.length - 1);
      return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
    };
    return { median: at(0.5), low: at(data.credible[0]), high: at(data.credible[1]) };
  }

  // ── the model that is asked about ────────────────────────────────────────────────────────────

  function ownShape() {
    const shape = { precision: $("precision").value };
    for (const knob of KNOBS) shape[knob] = Number($(knob).value);
    return whole(shape);
  }

  // A head may be left to the model, which then divides its width among the heads.
  const whole = (shape) => ({ ...shape, d_head: shape.d_head || shape.d_model / shape.heads });

  function problem(shape, bits) {
    if (!(bits > 0)) return "Give more than 0 bits.";
    for (const knob of KNOBS) {
      const least = Number($(knob).min);
      if (!Number.isInteger(Number($(knob).value)) || Number($(knob).value) < least) {
        return `${knob} is a whole number from ${least} on.`;
      }
    }
    if (!Number.isInteger(shape.d_head)) return "The width is not divisible by the heads: give the width of a head.";
    if (shape.d_model % 2) return "An odd width has no sinusoidal positions: choose an even one.";
    return "";
  }

  // A model that a table tells of by some numbers only is the one that agrees in these.
  function isSame(known, shape) {
    if (known.shape) {
      const trained = whole(known.shape);
      return KNOBS.every((knob) => trained[knob] === shape[knob]) && trained.precision === shape.precision;
    }
    if (known.architecture !== null) return false;
    const asked = { ...shape, precision_bits: BITS[shape.precision] };
    const told = ["layers", "heads", "d_head", "d_model", "precision_bits"].filter((name) => known[name] !== null);
    return told.length > 0 && told.every((name) => known[name] === asked[name]);
  }

  function parameters(shape, subject, bits) {
    const sizes = data.sizes[subject.family] || data.sizes[""];
    const { layer, bare, levels } = sizes;
    const span = shape.heads * shape.d_head, d = shape.d_model, f = shape.d_ff;
    const one = layer[0] * d * span + layer[1] * span + (f ? layer[2] * d * f + layer[3] * f + layer[4] * d : bare * d);
    let best = levels[0];
    for (const level of levels) {
      if (Math.abs(level.log2 - Math.log2(bits)) < Math.abs(best.log2 - Math.log2(bits))) best = level;
    }
    return shape.layers * one + best.width * d + best.fixed;
  }

  function budgetsOf(shape, count) {
    return {
      bandwidth: shape.heads * shape.d_head * BITS[shape.precision],
      weights: count * BITS[shape.precision],
      storage: count * data.storageBits,
    };
  }

  // ── words ────────────────────────────────────────────────────────────────────────────────────

  const figures = (value, count) => String(Number(value.toPrecision(count)));
  function number(value) {
    for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= size * 10 || (Math.abs(value) >= size && size > 1e3)) return figures(value / size, 3) + letter;
    }
    return figures(value, Math.abs(value) >= 1000 ? 4 : 3);
  }
  const percent = (share) => (share < 0.01 ? "<1" : share > 0.99 ? ">99" : String(Math.round(100 * share)));
  const chance = (one) => `${percent(one.median)} % [${percent(one.low)}–${percent(one.high)} %]`;

  function verdict(probability) {
    if (probability.low >= 0.5) return "Yes";
    return probability.high <= 0.5 ? "No" : "Open";
  }

  function* strays(fit, subject, model, shape, budget, bits) {
    if (subject.family === null) yield "no run was made of this task: it is told from how families differ";
    const [low, high] = subject.tried;
    if (bits < low * (1 - 1e-9) || bits > high * (1 + 1e-9)) {
      yield `${number(bits)} bits lie outside of the ${number(low)} to ${number(high)} that were tried`;
    }
    if (model !== null) return;
    const name = fit.notion === "storage" ? "storage" : "bandwidth";
    if (fit.meanLog2Budget === null) yield `the ${name} of some models is not known, so growth with it cannot be told`;
    else if (budget < Math.min(...fit.budgets) || budget > Math.max(...fit.budgets)) {
      yield `its ${name} of ${number(budget)} bits lies outside of what was trained`;
    }
    if (fit.depths.length && !fit.depths.includes(shape.layers)) yield `no model of ${shape.layers} layers was trained`;
  }

  function command(subject, bits, shape) {
    const task = subject.family === null ? "" : ` ${quoted(subject.family)}`;
    const notion = subject.family === null ? ` --demand ${subject.notion}` : "";
    const flags = KNOBS.map((knob) => `--${knob.replace("_", "-")} ${shape[knob]}`).join(" ");
    return `ullage predict${task} --bits ${bits}${notion} ${flags} --precision ${shape.precision} ${root.dataset.where}`;
  }
  const quoted = (text) => (/^[\w:=,.]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

  // ── the picture ──────────────────────────────────────────────────────────────────────────────

  const SVG = "http://www.w3.org/2000/svg";
  function draw(fit, place, model, log2Budget, bits) {
    const subject = fit.subjects[place];
    const low = Math.log2(Math.min(subject.tried[0], bits)) - 0.6, high = Math.log2(Math.max(subject.tried[1], bits)) + 0.6;
    const across = (log2) => 30 + (280 * (log2 - low)) / (high - low), up = (share) => 118 - 104 * share;
    const points = Array.from({ length: 33 }, (_, k) => low + ((high - low) * k) / 32);
    const found = points.map((log2) => evaluate(fit, place, model, log2Budget, log2).probability);
    const path = (ends) => ends.map(([log2, share]) => `${across(log2).toFixed(1)},${up(share).toFixed(1)}`).join(" ");
    const band = [...points.map((log2, k) => [log2, found[k].high]), ...points.map((log2, k) => [log2, found[k].low]).reverse()];
    const picture = root.querySelector("svg");
    picture.replaceChildren();
    const add = (name, attributes, text) => {
      const node = picture.appendChild(document.createElementNS(SVG, name));
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      if (text !== undefined) node.textContent = text;
    };
    for (const [share, text] of [[0, "0"], [0.5, "½"], [1, "1"]]) {
      add("line", { x1: 30, x2: 310, y1: up(share), y2: up(share), class: "rule" });
      add("text", { x: 24, y: up(share) + 4, class: "end" }, text);
    }
    add("polygon", { points: path(band), class: "band" });
    add("polyline", { points: path(points.map((log2, k) => [log2, found[k].median])), class: "curve" });
    add("line", { x1: across(Math.log2(bits)), x2: across(Math.log2(bits)), y1: up(0), y2: up(1), class: "asked" });
    for (const log2 of [low + 0.6, high - 0.6]) {
      add("text", { x: across(log2), y: 134, class: "middle" }, number(2 ** log2));
    }
    add("text", { x: 170, y: 146, class: "middle" }, `demand, ${subject.notion} bits`);
  }

  // ── asking and answering ─────────────────────────────────────────────────────────────────────

  const subjects = [];
  data.fits.forEach((fit, place) => fit.subjects.forEach((subject, which) => {
    if (subject.offered) subjects.push({ fit, place, which, ...subject });
  }));

  function option(select, value, text) {
    const one = document.createElement("option");
    one.value = value;
    one.textContent = text;
    select.append(one);
  }

  function offerModels(fit) {
    const select = $("model"), before = select.value;
    select.replaceChildren();
    fit.models.forEach((model, place) => option(select, place, `${model.name}, as it was trained`));
    option(select, "own", "a shape of your own");
    select.value = [...select.options].some((one) => one.value === before) ? before : "0";
  }

  function fill(shape) {
    for (const knob of KNOBS) $(knob).value = whole(shape)[knob];
    $("precision").value = shape.precision;
  }

  function ask() {
    const { fit, which } = subjects[$("subject").value], subject = fit.subjects[which];
    const bits = Number($("bits").value), chosen = $("model").value;
    const trained = chosen === "own" ? null : fit.models[chosen];
    const shape = trained && !trained.shape
      ? { layers: trained.layers, heads: trained.heads, d_head: trained.d_head, precision: null }
      : ownShape();
    const wrong = trained && !trained.shape ? (bits > 0 ? "" : "Give more than 0 bits.") : problem(shape, bits);
    root.querySelector(".wrong").textContent = wrong;
    root.querySelector(".answer").hidden = Boolean(wrong);
    if (wrong) return;
    answer(fit, which, subject, bits, shape, trained);
  }

  function answer(fit, which, subject, bits, shape, trained) {
    let model = trained ? fit.models.indexOf(trained) : fit.models.findIndex((known) => isSame(known, shape));
    if (model < 0) model = null;
    const count = shape.precision ? parameters(shape, subject, bits) : trained.parameters;
    const budgets = shape.precision ? budgetsOf(shape, count) : {
      bandwidth: trained.heads * trained.d_head * trained.precision_bits,
      weights: count * trained.precision_bits,
      storage: count * data.storageBits,
    };
    const budget = budgets[fit.notion === "storage" ? "storage" : "bandwidth"];
    const log2Budget = fit.meanLog2Budget === null || !budget ? 0 : Math.log2(budget) - fit.meanLog2Budget;
    const found = evaluate(fit, which, model, log2Budget, Math.log2(bits));
    const binds = data.compared[subject.notion].filter((name) => budgets[name] > 0)
      .reduce((best, name) => (best && budgets[best] <= budgets[name] ? best : name), null);
    const beyond = [...strays(fit, subject, model, shape, budget, bits)];
    const tell = (name, text) => { root.querySelector(`.${name}`).textContent = text; };
    tell("word", verdict(found.probability));
    tell("chance", chance(found.probability));
    tell("expected", `${found.skill.median.toFixed(2)} [${found.skill.low.toFixed(2)}, ${found.skill.high.toFixed(2)}]`);
    tell("binding", binds
      ? `${binds}: ${number((100 * bits) / budgets[binds])} % of ${number(budgets[binds])} bits asked for; ${RAISES[binds]}`
      : "no budget can be told");
    tell("beyond", beyond.length ? `Beyond what was tried: ${beyond.join("; ")}.` : "Within what was tried.");
    tell("doubt", fit.trusted ? "" : "The sampler did not settle on these runs: take care with this answer.");
    const knobs = model !== null && fit.models[model].shape ? fit.models[model].shape : { ...shape, d_head: shape.d_head * shape.heads === shape.d_model ? 0 : shape.d_head };
    tell("command", shape.precision && root.dataset.where !== undefined ? command(subject, bits, knobs) : "");
    root.querySelector(".answer").classList.toggle("extrapolating", beyond.length > 0);
    root.querySelector(".answer").classList.toggle("doubtful", !fit.trusted);
    root.dataset.answer = JSON.stringify({ ...found, binding_budget: binds, extrapolating: beyond.length > 0, parameters: count });
    draw(fit, which, model, log2Budget, bits);
  }

  $("subject").addEventListener("change", function () {
    const { fit, tried } = subjects[this.value];
    offerModels(fit);
    $("bits").value = figures(Math.sqrt(tried[0] * tried[1]), 3);
    modelChosen();
  });
  function modelChosen() {
    const { fit } = subjects[$("subject").value], chosen = fit.models[$("model").value];
    if (chosen && chosen.shape) fill(chosen.shape);
    ask();
  }
  $("model").addEventListener("change", modelChosen);
  $("bits").addEventListener("input", ask);
  for (const knob of [...KNOBS, "precision"]) {
    $(knob).addEventListener("input", function () {
      const { fit } = subjects[$("subject").value];
      const place = fit.models.findIndex((known) => known.shape && isSame(known, ownShape()));
      $("model").value = place < 0 ? "own" : String(place);
      ask();
    });
  }
  root.addEventListener("submit", (event) => event.preventDefault());

  subjects.forEach(({ family, notion }, place) => option($("subject"), place,
    family === null ? `a task that nobody has trained, ${notion} bits` : `${family}, ${notion} bits`));
  root.hidden = false;
  $("subject").value = String(Math.max(0, subjects.findIndex((one) => one.family === root.dataset.family)));
  $("subject").dispatchEvent(new Event("change"));
  const focus = subjects[$("subject").value].fit.models.findIndex((model) => model.model_id === root.dataset.model);
  if (focus >= 0) $("model").value = String(focus);
  modelChosen();
})();
