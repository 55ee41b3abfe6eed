import assert from 'node:assert/strict';
import {test} from 'node:test';

import {niceCeiling} from '../../../web/plot.js';
import {readStats} from '../../../web/stats.js';

test('the top of a plot is a round number that holds the peak', () => {
  for (const [peak, top] of [
    [0, 10], [10, 10], [10.1, 20], [21, 50], [99, 100], [100, 100], [101, 200],
    [4321, 5000],
  ]) {
    assert.equal(niceCeiling(peak), top, String(peak));
  }
});

test('missing figures are undefined', () => {
  for (const value of Object.values(readStats({}))) {
    assert.equal(value, undefined);
  }
});
