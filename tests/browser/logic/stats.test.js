import assert from 'node:assert/strict';
import {test} from 'node:test';

import {readStats} from '../../../web/stats.js';

test('what was refused has not ended', () => {
  const requests = {stopped: 1, length: 2, cancelled: 3, failed: 4, refused: 9};
  assert.equal(readStats({requests}).finished, 10);
  assert.equal(readStats({}).finished, undefined);
});
