// The live panel: asks /stats each second while it is seen, seldom otherwise
// (so that the plot goes on), ever more seldom while the server is silent.

import {fetchStats} from './api.js';
import {bytes, duration, el, grouped} from './dom.js';
import {Plot} from './plot.js';
import {readStats} from './stats.js';

const seenInterval = 1000, unseenInterval = 10000;  // milliseconds
const plotSeconds = 300;

export class Panel {
  #element;
  #plot = new Plot(plotSeconds, 'tokens per second');
  #speed = el('strong');
  #note = el('p', {class: 'note', role: 'status'});
  #memory = new MemoryBar();
  #lines = el('dl');
  #timer = 0;
  #failures = 0;

  // `element` is hidden while the panel is shut.
  constructor(element) {
    this.#element = element;
    element.querySelector('.body').append(
        this.#note,
        el('p', {class: 'speed'}, this.#speed, ' tokens/s'),
        this.#plot.element, this.#memory.element, this.#lines);
    document.addEventListener('visibilitychange', () => this.wake());
    this.#poll();
  }

  // Asks now if the panel is seen.
  wake() {
    if (!this.#isSeen()) return;
    this.#failures = 0;
    clearTimeout(this.#timer);
    this.#poll();
  }

  #isSeen() {
    return !this.#element.hidden && !document.hidden;
  }

  async #poll() {
    try {
      this.#show(readStats(await fetchStats()));
      this.#failures = 0;
    } catch (e) {
      this.#failures = Math.min(this.#failures + 1, 4);
      this.#plot.add(Date.now(), null);
      this.#speed.textContent = '–';
      this.#note.textContent = e.message;
    }
    const interval = this.#isSeen() ? seenInterval : unseenInterval;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), interval << this.#failures);
  }

  #show(stats) {
    this.#note.textContent = '';
    this.#speed.textContent = stats.decodeTps === undefined ? '–' :
        stats.decodeTps.toFixed(stats.decodeTps < 100 ? 1 : 0);
    this.#plot.add(Date.now(), stats.decodeTps ?? null);
    this.#memory.show(stats);
    const lines =
        lineTexts(stats).filter(([, text]) => text !== undefined);
    this.#lines.replaceChildren(...lines.flatMap(
        ([label, text]) => [el('dt', {}, label), el('dd', {}, text)]));
  }
}

function lineTexts(stats) {
  const some = (value, text) => value === undefined ? undefined : text(value);
  const {rows, places, kvSchemes, startedAt} = stats;
  return [
    ['Writing', some(rows, (count) => places ? `${count} of ${places}` :
                                               String(count))],
    ['Reading prompts', some(stats.joining, grouped)],
    ['Queued', some(stats.queued, grouped)],
    ['Prompt speed', some(stats.prefillTps, (speed) =>
        `${grouped(Math.round(speed))} tokens/s`)],
    ['Requests ended', some(stats.finished, grouped)],
    ['Prompt tokens', some(stats.promptTokens, grouped)],
    ['Tokens written', some(stats.generatedTokens, grouped)],
    ['Model', stats.type],
    ['Weights', some(stats.weightBytes, bytes)],
    ['Layers', some(stats.layers, String)],
    ['Vocabulary', some(stats.vocabulary, grouped)],
    ['Context', some(stats.context, grouped)],
    ['Longest that fits', some(stats.longest, grouped)],
    ['KV scheme', some(kvSchemes, (schemes) =>
        Object.keys(schemes).join(', '))],
    ['Up for', some(startedAt, (start) =>
        duration(Date.now() / 1000 - start))],
  ];
}

// Keys and values against what the weights leave of the budget.
class MemoryBar {
  #used = el('span', {class: 'used'});
  #reserved = el('span', {class: 'reserved'});
  #text = el('span');
  #bar = el('div', {class: 'bar', role: 'meter', 'aria-label': 'KV cache'},
            this.#used, this.#reserved);
  element = el('div', {class: 'memory'},
               el('p', {}, el('span', {}, 'KV cache'), this.#text), this.#bar);

  show({kvBytes, kvReservedBytes, kvBudgetBytes}) {
    this.element.hidden = kvBytes === undefined || !kvBudgetBytes;
    if (this.element.hidden) return;
    const share = (part) =>
        `${Math.min(100, 100 * (part ?? 0) / kvBudgetBytes)}%`;
    this.#used.style.width = share(kvBytes);
    this.#reserved.style.width = share((kvReservedBytes ?? 0) - kvBytes);
    this.#text.textContent = `${bytes(kvBytes)} of ${bytes(kvBudgetBytes)}`;
    this.#bar.ariaValueMin = '0';
    this.#bar.ariaValueMax = String(kvBudgetBytes);
    this.#bar.ariaValueNow = String(kvBytes);
    this.#bar.ariaValueText = this.#text.textContent;
  }
}
