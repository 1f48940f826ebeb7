"""The tables of the store, as steps from one format to the next. A store of format n takes the steps from n on.

A step that has been released never changes; new tables and columns are a new step, or part of one that is not released.
"""

from __future__ import annotations

_SUBSCRIPTIONS_AND_TOKENS = """
CREATE TABLE fold (one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, stamp INTEGER NOT NULL);
CREATE TABLE subscription (id TEXT PRIMARY KEY, number INTEGER NOT NULL, first INTEGER NOT NULL, owner TEXT NOT NULL,
  text TEXT NOT NULL, dialect TEXT NOT NULL, spec BLOB NOT NULL, protocol TEXT NOT NULL, created INTEGER NOT NULL,
  start INTEGER, expires INTEGER, rules TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX subscription_owner ON subscription (owner, id);
CREATE INDEX subscription_rules ON subscription (number) WHERE rules != '{}';
CREATE INDEX subscription_expires ON subscription (expires) WHERE expires IS NOT NULL;
CREATE TABLE version (number INTEGER PRIMARY KEY, id TEXT NOT NULL, until INTEGER);
CREATE INDEX version_id ON version (id, number);
CREATE INDEX version_until ON version (until) WHERE until IS NOT NULL;
CREATE TABLE cursor (id TEXT PRIMARY KEY, offset INTEGER NOT NULL, part INTEGER) WITHOUT ROWID;
CREATE TABLE token (name TEXT PRIMARY KEY, digest TEXT NOT NULL, scopes TEXT NOT NULL, tenant TEXT NOT NULL,
  rules TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE dead_letter (number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, owner TEXT NOT NULL,
  reason TEXT NOT NULL, event BLOB NOT NULL);
"""

_LINKS = """
CREATE TABLE origin (id TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE link (peer TEXT PRIMARY KEY, name TEXT NOT NULL, dialed INTEGER NOT NULL, since INTEGER NOT NULL,
  received INTEGER, cursor INTEGER, region BLOB) WITHOUT ROWID;
CREATE TABLE peer_filter (peer TEXT NOT NULL, key BLOB NOT NULL, tenant TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (peer, key)) WITHOUT ROWID;
"""

_PUBLICATIONS = """
ALTER TABLE subscription ADD COLUMN "on" TEXT NOT NULL DEFAULT 'events';
ALTER TABLE subscription ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
CREATE INDEX subscription_on ON subscription ("on", first) WHERE "on" != 'events';
CREATE TABLE publication (tenant TEXT NOT NULL, space TEXT NOT NULL, key TEXT NOT NULL, offset INTEGER NOT NULL,
  time INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (tenant, space, key)) WITHOUT ROWID;
CREATE INDEX publication_offset ON publication (offset);
CREATE TABLE space (tenant TEXT NOT NULL, name TEXT NOT NULL, offset INTEGER NOT NULL, dimensions TEXT NOT NULL,
  PRIMARY KEY (tenant, name)) WITHOUT ROWID;
CREATE TABLE publication_pair (first INTEGER NOT NULL, key TEXT NOT NULL, due REAL, PRIMARY KEY (first, key))
  WITHOUT ROWID;
"""

_WEBHOOKS = """
CREATE INDEX subscription_sink ON subscription (id) WHERE protocol = 'HTTP';
CREATE TABLE sink_secrets (id TEXT PRIMARY KEY, offset INTEGER NOT NULL, signing TEXT NOT NULL, credential TEXT)
  WITHOUT ROWID;
CREATE TABLE webhook (id TEXT PRIMARY KEY, sink TEXT NOT NULL, consent TEXT NOT NULL, rate INTEGER, callback TEXT,
  disabled TEXT, attempts INTEGER NOT NULL, failing INTEGER, due INTEGER, until_offset INTEGER, until_part INTEGER,
  problem TEXT) WITHOUT ROWID;
CREATE UNIQUE INDEX webhook_callback ON webhook (callback) WHERE callback IS NOT NULL;
CREATE INDEX webhook_due ON webhook (due) WHERE due IS NOT NULL;
CREATE TABLE attempt (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, time INTEGER NOT NULL,
  message TEXT NOT NULL, cursor TEXT NOT NULL, events INTEGER NOT NULL, attempt INTEGER NOT NULL, status INTEGER,
  seconds REAL NOT NULL, problem TEXT);
CREATE INDEX attempt_id ON attempt (id, number);
CREATE TABLE undelivered (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, time INTEGER NOT NULL,
  message TEXT NOT NULL, after TEXT NOT NULL, until TEXT NOT NULL, events INTEGER NOT NULL, attempts INTEGER NOT NULL,
  problem TEXT NOT NULL);
CREATE INDEX undelivered_id ON undelivered (id, number);
"""

_SCHEMA = """
CREATE TABLE schema_extension (offset INTEGER PRIMARY KEY, definition BLOB NOT NULL, "by" TEXT NOT NULL);
CREATE TABLE schema_base (one INTEGER PRIMARY KEY CHECK (one = 1), digest TEXT NOT NULL, document BLOB NOT NULL);
"""

# Of a version that has ended, what it matched by; older stores lack it, and the log has it. `matching` is how far all
# events are matched, at least; `match_range` has the ranges that were committed.
_MATCHING = """
ALTER TABLE version ADD COLUMN text TEXT;
ALTER TABLE version ADD COLUMN dialect TEXT;
ALTER TABLE version ADD COLUMN rules TEXT;
ALTER TABLE version ADD COLUMN topic TEXT;
CREATE TABLE matching (one INTEGER PRIMARY KEY CHECK (one = 1), watermark INTEGER NOT NULL);
INSERT INTO matching VALUES (1, 0);
CREATE TABLE match_range (first INTEGER PRIMARY KEY, until INTEGER NOT NULL);
"""

STEPS: tuple[str, ...] = (_SUBSCRIPTIONS_AND_TOKENS, _LINKS + _PUBLICATIONS + _WEBHOOKS + _SCHEMA + _MATCHING)
"""Step n makes format n + 1 of format n; format 0 is an empty file. Format 2 is not released: it may still grow."""
FORMAT_VERSION = len(STEPS)
