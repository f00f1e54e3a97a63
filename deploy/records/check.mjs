// Sends the records of sample.json through the programs of vector.yaml, by the VRL that Vector is made with, into the
// table of clickhouse.sql, by ClickHouse itself, and puts the questions of queries.sql. Each must have an answer.
//   node check.mjs MODULES      MODULES has node_modules with chdb, @bpinternal/verel and yaml
//   node check.mjs MODULES RECORDS TO CLIENT POD
// The second takes a connection log, writes what Loki's sink gets of it to a file, asks of this client and pod, and prints
// each answer as one line, a JSON list.
import { readFileSync, writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const { Session } = require('chdb');
const vrl = require('@bpinternal/verel');
const { parse } = require('yaml');
const read = (name) => readFileSync(new URL(name, import.meta.url), 'utf8');

const { transforms } = parse(read('vector.yaml'));
for (const [name, { source }] of Object.entries(transforms)) {
  for (const error of vrl.check(source).errors ?? []) {
    throw new Error(`transforms.${name}: ${vrl.formatDiagnostic(error)}`);
  }
}

// row is what Vector makes of a line of the log, null if it drops it.
function row(line) {
  let event = { message: line };
  for (const name of ['records', 'rows']) {
    try {
      event = vrl.execute(transforms[name].source, event).event;
    } catch (error) {
      if (JSON.parse(line).event !== 'end') return null; // aborted
      throw new Error(`transforms.${name}: ${line}: ${error.message ?? JSON.stringify(error)}`);
    }
  }
  return event;
}

const [records, to, client, pod] = process.argv.slice(3);
const lines = (records ? readFileSync(records, 'utf8') : read('sample.json')).trim().split('\n');
if (records) {
  const sent = lines.map((l) => vrl.execute(transforms.records.source, { message: l }).event);
  writeFileSync(to, sent.map((e) => `${JSON.stringify(e)}\n`).join(''));
}
const rows = lines.map(row);
lines.forEach((line, i) => {
  if ((rows[i] === null) !== (JSON.parse(line).event !== 'end')) throw new Error(`kept or dropped wrongly: ${line}`);
});
const kept = rows.filter((r) => r !== null);
// Again now, for questions of the last hour, and when and where the others ask.
const at = (time, change) => kept.map((r) => ({ ...r, time, ...change }));
const asked = { client: '10.244.3.17:41234', pod: 'shop/cart-b' };
const all = records ? kept : [...kept, ...at(new Date().toISOString(), {}), ...at('2026-11-23T03:12:00.000001Z', asked)];

const folder = mkdtempSync(join(tmpdir(), 'records-'));
try {
  const session = new Session(folder);
  const statements = (name) => read(name).replace(/--.*/g, '').split(';').map((s) => s.trim()).filter(Boolean);
  for (const s of statements('clickhouse.sql')) session.query(s);
  session.query(`INSERT INTO portald.records SETTINGS date_time_input_format = 'best_effort',
    input_format_skip_unknown_fields = 1 FORMAT JSONEachRow ${all.map((r) => JSON.stringify(r)).join('\n')}`);
  const count = session.query('SELECT count() FROM portald.records', 'TSV').trim();
  if (Number(count) !== all.length) throw new Error(`${count} rows of ${all.length} were stored`);
  const dials = session.query('SELECT sum(length(attempts.endpoint)) FROM portald.records', 'TSV').trim();
  if (Number(dials) === 0) throw new Error('no dial was stored');
  for (let s of statements('queries.sql')) {
    if (records) {
      s = s.replaceAll('10.244.3.17:', `${client}:`).replaceAll('shop/cart-b', pod).replace(/toDateTime\('2026-11-23 03:1?1?:?.*?'UTC'\)/g, (m) => (m.includes('03:12:30') ? 'now() + 60' : 'now() - 3600'));
    }
    const answer = session.query(s, 'JSONEachRow').trim();
    if (answer === '') throw new Error(`no answer to\n${s}`);
    console.log(records ? `[${answer.split('\n').join(',')}]` : answer.split('\n')[0]);
  }
  session.cleanup();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
