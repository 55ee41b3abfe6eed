// One message on the page.

import {copyButton, el, grouped, icon, iconButton, seconds}
    from './dom.js';
import {MarkdownView} from './markdown_view.js';

// `actions`: {edit(text), remove()}.
export class UserView {
  element;
  #message;
  #actions;

  constructor(message, actions) {
    this.#message = message;
    this.#actions = actions;
    this.element = el('article', {class: 'message user', 'aria-label': 'You'});
    this.#show();
  }

  update() {}

  #show() {
    this.element.replaceChildren(
        el('div', {class: 'bubble', textContent: this.#message.content}),
        el('div', {class: 'actions'},
           iconButton('edit', 'Edit', () => this.#edit()),
           copyButton(() => this.#message.content),
           iconButton('trash', 'Delete with its answer',
                      this.#actions.remove)));
  }

  #edit() {
    const area = el('textarea', {
      value: this.#message.content, 'aria-label': 'Edit your message',
      rows: Math.min(this.#message.content.split('\n').length + 1, 12),
    });
    const done = () => {
      this.#show();
      this.element.querySelector('button').focus();
    };
    const form = el('form', {
      class: 'edit',
      onsubmit: (event) => {
        event.preventDefault();
        if (area.value.trim() !== '') this.#actions.edit(area.value);
      },
      onkeydown: (event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          done();
        } else if (event.key === 'Enter' && !event.shiftKey &&
                   event.target === area && !event.isComposing) {
          event.preventDefault();
          form.requestSubmit();
        }
      },
    }, area, el('div', {class: 'buttons'},
                el('button', {type: 'button', onclick: done}, 'Cancel'),
                el('button', {class: 'primary'}, 'Send')));
    this.element.replaceChildren(form);
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

export class ToolView {
  element;

  constructor({name, content}) {
    this.element = el('article', {
      class: 'message tool', 'aria-label': `Result of ${name}`,
    }, el('div', {class: 'call'}, el('header', {}, icon('result'),
                                     `Result of ${name}`),
          el('pre', {}, content)));
  }

  update() {}
}

// `actions`: {retry(), askKey()}. update(run): `run` is what is under way in
// this chat, if anything is.
export class AssistantView {
  element;
  #message;
  #actions;
  #thoughts = new MarkdownView();
  #content = new MarkdownView();
  #reasoning;
  #touched = false;  // the user folded or unfolded the reasoning
  #calls = el('div', {class: 'calls'});
  #progress = el('p', {class: 'progress'});
  #footer = el('footer');

  constructor(message, actions) {
    this.#message = message;
    this.#actions = actions;
    this.#reasoning = el('details', {class: 'reasoning', hidden: true},
                         el('summary', {onclick: () => this.#touched = true}),
                         this.#thoughts.element);
    this.element = el('article', {
      class: 'message assistant', 'aria-label': 'Model',
    }, this.#reasoning, this.#content.element, this.#calls, this.#progress,
                      this.#footer);
  }

  update(run) {
    const running = run?.reply === this.#message;
    this.element.ariaBusy = String(running);
    this.#updateReasoning(running);
    this.#content.update(this.#message.content);
    this.#calls.replaceChildren(...(this.#message.calls ?? []).map(callCard));
    this.#progress.hidden = !running;
    this.#progress.textContent = progressText(run, this.#message);
    if (!running) this.#updateFooter();
  }

  #updateReasoning(running) {
    const {reasoning, content, calls, figures} = this.#message;
    if (!reasoning) return;
    const thinking = running && content === '' && !calls;
    this.#reasoning.hidden = false;
    if (!this.#touched) this.#reasoning.open = thinking;
    this.#reasoning.firstChild.textContent = thinking ? 'Thinking…' :
        `Thought for ${seconds(figures.thought ?? 0)}`;
    this.#thoughts.update(reasoning);
  }

  #updateFooter() {
    const message = this.#message;
    const note = {
      length: 'Cut off: the limit of tokens is reached.',
      stopped: 'Stopped.',
    }[message.finish];
    const children = [
      message.error && this.#errorBox(message.error),
      note && el('p', {class: 'note'}, note),
      el('div', {class: 'actions'},
         message.content !== '' && copyButton(() => message.content),
         !message.error &&
             iconButton('retry', 'Regenerate', this.#actions.retry),
         el('span', {class: 'figures'}, figuresText(message.figures))),
    ];
    this.#footer.replaceChildren(...children.filter(Boolean));
  }

  #errorBox({message, status, retryAfter}) {
    const wait = retryAfter ? ` Try again in ${retryAfter} s.` : '';
    return el('div', {class: 'error', role: 'alert'},
              el('p', {}, message + wait),
              el('div', {class: 'buttons'},
                 status === 401 && el('button', {
                   type: 'button', onclick: this.#actions.askKey,
                 }, 'Enter API key'),
                 el('button', {type: 'button', onclick: this.#actions.retry},
                    'Retry')));
  }
}

function progressText(run, {figures}) {
  if (figures.firstToken !== undefined) return '';
  const {fed, total} = run?.progress ?? {};
  return total ? `Reading the prompt: ${grouped(fed)} of ${grouped(total)}` :
                 'Waiting for the model…';
}

function callCard({name, arguments: text}) {
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not complete yet: as it came.
  }
  return el('div', {class: 'call'},
            el('header', {}, icon('tool'), el('span', {}, name)),
            el('pre', {}, shown));
}

function figuresText({tokens, tps, firstToken, promptTokens, cachedTokens}) {
  const parts = [];
  if (tokens !== undefined) {
    parts.push(`${grouped(tokens)} token${tokens === 1 ? '' : 's'}`);
  }
  if (tps) parts.push(`${tps.toFixed(1)} tokens/s`);
  if (firstToken) parts.push(`first after ${seconds(firstToken)}`);
  if (promptTokens) {
    const cached = cachedTokens ? `, ${grouped(cachedTokens)} cached` : '';
    parts.push(`prompt ${grouped(promptTokens)}${cached}`);
  }
  return parts.join(' · ');
}
