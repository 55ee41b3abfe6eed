// Elements, icons, times and the clipboard.

const svg = 'http://www.w3.org/2000/svg';

// An element with properties (`class`, `aria-*`, `role` and `data-*` are set as
// attributes) and children: nodes or texts; null and false are skipped.
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class' || key === 'role' || key.includes('-')) {
      element.setAttribute(key, value);
    } else {
      element[key] = value;
    }
  }
  element.append(...children.filter((child) => child || child === 0));
  return element;
}

// One of the symbols of index.html.
export function icon(name) {
  const image = svgEl('svg', {class: 'icon', 'aria-hidden': 'true'});
  image.append(svgEl('use', {href: `#icon-${name}`}));
  return image;
}

export function svgEl(name, attributes = {}) {
  const element = document.createElementNS(svg, name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  return element;
}

export function iconButton(name, label, onclick) {
  return el('button', {
    type: 'button', class: 'icon-button', title: label, 'aria-label': label,
    onclick,
  }, icon(name));
}

// A button that copies text() and says so.
export function copyButton(text) {
  const button = iconButton('copy', 'Copy', async () => {
    const copied = await copyText(text());
    say(copied ? 'Copied.' : 'The browser did not allow copying.');
    if (!copied) return;
    button.replaceChildren(icon('check'));
    setTimeout(() => button.replaceChildren(icon('copy')), 1500);
  });
  return button;
}

// navigator.clipboard is there only on https and on this machine.
async function copyText(text) {
  if (navigator.clipboard) {
    return await navigator.clipboard.writeText(text).then(
        () => true, () => false);
  }
  const focused = document.activeElement;
  const area = el('textarea', {class: 'visually-hidden', value: text});
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  focused?.focus();
  return copied;
}

// For screen readers.
export function say(text) {
  document.getElementById('announcer').textContent = text;
}

let toastTimer = 0;

// A short note at the bottom; `action` is {label, run}.
export function toast(text, action = null) {
  const box = document.getElementById('toast');
  const close = () => box.replaceChildren();
  clearTimeout(toastTimer);
  box.replaceChildren(el('div', {class: 'toast'}, text, action && el('button', {
    type: 'button', class: 'text-button',
    onclick: () => {
      close();
      action.run();
    },
  }, action.label)));
  toastTimer = setTimeout(close, 8000);
}

export function grouped(number) {
  return number.toLocaleString('en');
}

export function seconds(value) {
  return value < 10 ? `${value.toFixed(2)} s` : `${value.toFixed(0)} s`;
}

// The two largest units of a time in seconds.
export function duration(value) {
  const minutes = Math.max(0, Math.floor(value / 60));
  const hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (days > 0) return `${days} d ${hours % 24} h`;
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}

export function bytes(value) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; ++unit) value /= 1000;
  return `${value.toFixed(unit > 0 && value < 100 ? 1 : 0)} ${units[unit]}`;
}
