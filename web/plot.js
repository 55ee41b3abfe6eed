// A line over the last minutes: (time, value) samples as an SVG drawing.

import {el, svgEl} from './dom.js';

const width = 300, height = 96;  // of the drawing's own units

export class Plot {
  element;
  #seconds;
  #unit;
  #samples = [];  // {time in ms, value}, oldest first
  #area = svgEl('path', {class: 'area'});
  #line = svgEl('path', {class: 'line'});
  #top = el('span', {class: 'top'});

  constructor(seconds, unit) {
    this.#seconds = seconds;
    this.#unit = unit;
    this.element = el('figure', {class: 'plot', role: 'img'});
    const drawing = svgEl('svg', {
      viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none',
      'aria-hidden': 'true',
    });
    for (const share of [0, 0.5, 1]) {
      const y = share * height;
      drawing.append(svgEl('path', {class: 'grid', d: `M0 ${y}H${width}`}));
    }
    drawing.append(this.#area, this.#line);
    this.element.append(this.#top, drawing, el('figcaption', {},
        el('span', {}, `${seconds / 60} min ago`), el('span', {}, 'now')));
  }

  // Leaves a gap where `value` is null.
  add(time, value) {
    this.#samples.push({time, value});
    const oldest = time - this.#seconds * 1000;
    const first = this.#samples.findIndex((sample) => sample.time >= oldest);
    this.#samples.splice(0, first);
    this.#draw(time);
  }

  #draw(now) {
    const values = this.#samples.map(({value}) => value ?? 0);
    const peak = Math.max(...values);
    const top = niceCeiling(peak);
    const x = (time) => width * (1 - (now - time) / (this.#seconds * 1000));
    const y = (value) => height * (1 - value / top);
    let line = '', area = '', last = null;
    for (const {time, value} of this.#samples) {
      if (value === null) {
        if (last !== null) area += `V${height}Z`;
        last = null;
        continue;
      }
      const point = `${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      line += (last === null ? 'M' : 'L') + point;
      area += last === null ? `M${x(time).toFixed(1)} ${height}L${point}` :
                              `L${point}`;
      last = value;
    }
    this.#line.setAttribute('d', line);
    this.#area.setAttribute('d', last === null ? area : `${area}V${height}Z`);
    this.#top.textContent = String(top);
    this.element.ariaLabel = `Last ${this.#seconds / 60} minutes: now ` +
        `${Math.round(values.at(-1))}, at most ${Math.round(peak)} ` +
        this.#unit;
  }
}

// The next of 1, 2, 5 times a power of ten; at least 10.
export function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 10)));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value);
}
