// What a user may set for each request. A setting that is not set is left to
// the server.

const number = (low, high) => ({kind: 'number', low, high});
const whole = (low, high = Number.MAX_SAFE_INTEGER) =>
    ({kind: 'whole', low, high});

// In the order of the dialog. `name` is the request's field but for system and
// enable_thinking.
export const fields = [
  {
    name: 'system', kind: 'text', label: 'System prompt',
    hint: 'Goes before every conversation',
  },
  {
    name: 'temperature', ...number(0, 5), label: 'Temperature',
    hint: '0 always takes the likeliest token',
  },
  {
    name: 'top_p', ...number(0, 1), label: 'Top p',
    hint: 'Likeliest tokens up to this share of probability',
  },
  {
    name: 'top_k', ...whole(-1), label: 'Top k',
    hint: 'So many of the likeliest tokens; 0: all',
  },
  {
    name: 'min_p', ...number(0, 1), label: 'Min p',
    hint: 'At least this likely, beside the likeliest',
  },
  {
    name: 'repetition_penalty', ...number(0.01, 100),
    label: 'Repetition penalty', hint: '1: none',
  },
  {
    name: 'max_tokens', ...whole(1), label: 'Most tokens',
    hint: 'Longest reply; empty: what fits',
  },
  {
    name: 'seed', ...whole(0), label: 'Seed',
    hint: 'The same seed draws the same reply',
  },
  {
    name: 'enable_thinking', kind: 'choice', label: 'Reasoning',
    choices: [['', 'As the model does'], ['on', 'On'], ['off', 'Off']],
    hint: 'For models that can do both',
  },
  {
    name: 'tools', kind: 'tools', label: 'Tools',
    hint: 'JSON list of functions; you type their results',
  },
];

// {value} of a field's text, undefined if it is empty, or {error}.
export function parseSetting(field, text) {
  text = text.trim();
  if (text === '') return {value: undefined};
  switch (field.kind) {
    case 'number':
    case 'whole': return parseNumber(field, text);
    case 'choice': return {value: text === 'on'};
    case 'tools': return parseTools(text);
    default: return {value: text};
  }
}

// The text from which parseSetting() makes the value.
export function settingText(field, value) {
  if (value === undefined) return '';
  if (field.kind === 'choice') return value ? 'on' : 'off';
  if (field.kind === 'tools') return JSON.stringify(value, null, 2);
  return String(value);
}

function parseNumber({kind, low, high}, text) {
  const value = Number(text.replace(',', '.'));
  const fits = value >= low && value <= high &&
      (kind !== 'whole' || Number.isInteger(value));
  if (fits) return {value};
  const range = high === Number.MAX_SAFE_INTEGER ? `${low} or more` :
                                                   `from ${low} to ${high}`;
  return {error: `A ${kind === 'whole' ? 'whole ' : ''}number ${range}`};
}

function parseTools(text) {
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (e) {
    return {error: `Not JSON: ${e.message}`};
  }
  const valid = Array.isArray(tools) && tools.every(
      (tool) => typeof tool?.function?.name === 'string');
  return valid ? {value: tools} :
                 {error: 'A list of {"type": "function", "function": {…}}'};
}

const storageKey = 'quern.settings';

// The saved settings; those that no longer pass are left out.
export function loadSettings(storage) {
  const settings = {};
  let saved;
  try {
    saved = JSON.parse(storage.getItem(storageKey)) ?? {};
  } catch {
    return settings;
  }
  for (const field of fields) {
    const {value} = parseSetting(field, settingText(field, saved[field.name]));
    if (value !== undefined) settings[field.name] = value;
  }
  return settings;
}

// Whether they could be saved.
export function saveSettings(storage, settings) {
  try {
    storage.setItem(storageKey, JSON.stringify(settings));
    return true;
  } catch {
    return false;
  }
}
