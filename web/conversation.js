// The messages of the shown chat; the end stays in view while it grows, unless
// the reader scrolled away from it.

import {say} from './dom.js';
import {AssistantView, ToolView, UserView} from './message_view.js';

const nearEnd = 48;         // pixels that still count as the end
const hiddenInterval = 500; // milliseconds between updates of a hidden page

export class Conversation {
  #session;
  #scroller;  // holds log, empty and the button to its end
  #log;
  #askKey;
  #views = new Map();   // message -> view
  #grown = new Set();   // messages whose views are to be updated
  #atEnd = true;

  constructor(session, elements, askKey) {
    this.#session = session;
    this.#scroller = elements.scroller;
    this.#log = elements.log;
    this.#askKey = askKey;
    session.addEventListener('messages', () => this.show());
    session.addEventListener('reply', ({detail}) => this.#grow(detail));
    this.#scroller.addEventListener('scroll', () => {
      const {scrollHeight, scrollTop, clientHeight} = this.#scroller;
      this.#atEnd = scrollHeight - scrollTop - clientHeight < nearEnd;
      elements.toEnd.hidden = this.#atEnd;
    }, {passive: true});
    elements.toEnd.onclick = () => this.#scrollToEnd();
  }

  show() {
    const {chat, run} = this.#session;
    this.#views = new Map(chat.messages.map(
        (message) =>
            [message, this.#views.get(message) ?? this.#viewOf(message)]));
    for (const view of this.#views.values()) view.update(run);
    this.#log.replaceChildren(
        ...[...this.#views.values()].map(({element}) => element));
    this.#scrollToEnd();
  }

  #viewOf(message) {
    const session = this.#session;
    const index = () => session.chat.messages.indexOf(message);
    switch (message.role) {
      case 'user': return new UserView(message, {
        edit: (text) => session.rewrite(index(), text),
        remove: () => this.onRemove(session.removeTurn(index())),
      });
      case 'tool': return new ToolView(message);
      default: return new AssistantView(message, {
        retry: () => session.rewrite(index()),
        askKey: this.#askKey,
      });
    }
  }

  // Set by the owner: told what brings a removed turn back.
  onRemove = () => {};

  #grow(message) {
    if (!this.#views.has(message)) return;
    const ended = message.finish && this.#session.run?.reply !== message;
    if (ended) announce(message);
    if (this.#grown.size === 0) nextFrame(() => this.#update());
    this.#grown.add(message);
  }

  #update() {
    for (const message of this.#grown) {
      this.#views.get(message)?.update(this.#session.run);
    }
    this.#grown.clear();
    if (this.#atEnd) this.#scrollToEnd();
  }

  #scrollToEnd() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}

// A hidden page has no frames.
function nextFrame(update) {
  if (document.hidden) {
    setTimeout(update, hiddenInterval);
  } else {
    requestAnimationFrame(update);
  }
}

function announce({finish, content}) {
  if (finish === 'failed') return;  // its error box is an alert
  say(finish === 'stopped' ? 'Stopped.' : `Reply: ${content}`);
}
