//! Another language emits with a plain INSERT: here Python with its own SQLite, in its own process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use postroom::{Outbox, Position};

use crate::{Fixture, until};

/// A Python program that has the file open; it prints when it has come to a place and goes on when told.
struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Python {
    fn start(file: &Path, program: &str) -> Self {
        let prelude = "import sqlite3, sys, json\n\
             db = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)\n\
             def reach(place):\n    print(place, flush=True)\n    sys.stdin.readline()\n";
        let mut child = Command::new("python3")
            .args(["-c", &format!("{prelude}{program}")])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with the sqlite3 module is needed for this test");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn wait_for(&mut self, place: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), place);
    }

    fn go_on(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    fn finish(mut self) {
        assert!(self.child.wait().unwrap().success(), "the Python program failed");
    }
}

#[tokio::test]
async fn python_emits_in_its_own_transaction_while_a_store_has_the_file_open() {
    let fixture = Fixture::new().await;
    fixture
        .sql("create table orders (id integer primary key, total integer)")
        .await;
    let mut python = Python::start(
        &fixture.file(),
        r#"
emit = """insert into postroom_outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
          values (?, ?, ?, ?, ?)"""
db.execute("begin immediate")
db.execute("insert into orders (total) values (1)")
db.execute(emit, ("0197a7f2-0000-7000-8000-000000000001", "shop.order.placed.v1", "order", "rolled back", "{}"))
reach("written")
db.execute("rollback")
db.execute("begin immediate")
db.execute("insert into orders (total) values (2)")
db.execute(emit, ("0197a7f2-0000-7000-8000-000000000002", "shop.order.placed.v1", "order", "committed", json.dumps({"total": 2})))
reach("written again")
db.execute("commit")
reach("committed")
"#,
    );
    python.wait_for("written");
    assert!(fixture.ids_read().await.is_empty());
    python.go_on();
    python.wait_for("written again");
    assert!(fixture.ids_read().await.is_empty());
    python.go_on();
    python.wait_for("committed");
    let page = fixture.store.read(Position::START, 10).await.unwrap();
    python.go_on();
    python.finish();
    let [entry] = &page.entries[..] else {
        panic!("one entry, not {}", page.entries.len())
    };
    assert_eq!(entry.event.id.to_string(), "0197a7f2-0000-7000-8000-000000000002");
    assert_eq!(entry.event.aggregate_id, "committed");
    assert_eq!(entry.event.payload.get(), r#"{"total": 2}"#);
    assert_eq!((entry.event.source.as_str(), entry.event.headers.len()), ("", 0));
    assert!((entry.created_at - entry.event.occurred_at).abs() < time::Duration::SECOND);
}

#[tokio::test]
async fn an_event_without_an_id_gets_a_uuid_of_version_7_by_the_database_clock() {
    let fixture = Fixture::new().await;
    let before = postroom::clock::now();
    let mut python = Python::start(
        &fixture.file(),
        r#"
ids = [db.execute("""insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload)
                     values ('a.b', 'a', ?, '1') returning event_id""", (n,)).fetchall()[0][0] for n in range(200)]
assert len(set(ids)) == 200
reach(ids[0])
"#,
    );
    until("200 events", async || fixture.store.pulse().await.unwrap().head == 200).await;
    let page = fixture.store.read(Position::START, 200).await.unwrap();
    python.wait_for(&page.entries[0].event.id.to_string());
    python.go_on();
    python.finish();
    for entry in page.entries.iter() {
        let id = entry.event.id;
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        let (seconds, nanoseconds) = id.get_timestamp().unwrap().to_unix();
        let at = time::OffsetDateTime::from_unix_timestamp_nanos(
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds),
        )
        .unwrap();
        assert!((at - before).abs() < time::Duration::minutes(1), "{at} in {id}");
    }
}

#[tokio::test]
async fn whatever_python_may_not_insert_is_refused_with_the_limit_in_the_message() {
    let fixture = Fixture::new().await;
    let mut python = Python::start(
        &fixture.file(),
        r#"
def check(message, **columns):
    row = {"event_type": "a.b", "aggregate_type": "a", "aggregate_id": "1", "payload": "{}", **columns}
    try:
        db.execute(f"insert into postroom_outbox ({', '.join(row)}) values ({', '.join('?' * len(row))})", list(row.values()))
    except sqlite3.IntegrityError as error:
        assert message in str(error), f"{columns}: {error}"
    else:
        assert message == "", f"{str(columns)[:100]} was accepted"

check("event_id must be a UUID in lower case", event_id="7")
check("event_id must be a UUID in lower case", event_id="0197A7F2-0000-7000-8000-00000000000A")
check("event_type must have 1 to 200", event_type="")
check("event_type must have 1 to 200", event_type="a" * 201)
check("event_type must have 1 to 200", event_type="order placed")
check("aggregate_type must have 1 to 200 bytes", aggregate_type="")
check("aggregate_id must have 1 to 200 bytes", aggregate_id="키" * 67)
check("aggregate_id must have 1 to 200 bytes and no NUL", aggregate_id="a\0b")
check("NOT NULL constraint failed: postroom_outbox.aggregate_id", aggregate_id=None)
check("source must have at most 200 bytes", source="s" * 201)
check("payload must be JSON", payload="{")
check("payload must be JSON", payload="")
check("payload must be JSON", payload="NaN")
check("payload must be JSON", payload="'a'")
check("payload must be JSON", payload='"a\nb"')
check("payload must have at most 1000000 bytes", payload='"' + "x" * 999999 + '"')
check("payload must not contain NUL", payload='"\\u0000"')
check("payload must not contain NUL", payload='"\\\\\\u0000"')
check("payload must not contain NUL", payload="{}\0{")
check("cannot store BLOB value in TEXT column postroom_outbox.payload", payload=b"{}")
check("headers must be a JSON object", headers="[]")
check("headers must be a JSON object", headers="{")
check("headers must be a JSON object", headers="{}\0{")
check("headers must be a JSON object whose values are strings", headers='{"n": 1}')
check("headers must have at most 16384 bytes", headers=json.dumps({"h": "v" * 16384}))
for broken in ["2026-02-30T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01 00:00:00", "2026-13-01T00:00:00.000Z",
               "1969-12-31T23:59:59.999Z", "2026-01-01T00:00:60.000Z", "2026-01-01T00:00:00Z", ""]:
    check("occurred_at must look like", occurred_at=broken)
    check("created_at is set by the database" if broken[:2] != "19" else "", created_at=broken)
for payload in ['"\\\\u0000"', "null", " [1]\n", "[" * 100 + "]" * 100, '"' + "x" * 999998 + '"']:
    check("", payload=payload)
check("", aggregate_id=42, occurred_at="2024-02-29T23:59:59.999Z", headers='{"traceparent": "00-ab-cd-01"}')
check("", aggregate_id="키" * 66)
reach("checked")
"#,
    );
    python.wait_for("checked");
    python.go_on();
    python.finish();
    let read = fixture.ids_read().await;
    assert_eq!(read.len(), 8, "each row that was accepted can be read");
    assert!(read.contains(&"42".to_owned()), "a number becomes text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_in_other_processes_and_a_reader_here_lose_nothing_and_keep_order() {
    let fixture = Fixture::new().await;
    let program = r#"
import os, random
me = str(os.getpid())
n = 0
for _ in range(150):
    db.execute("begin immediate")
    rows = random.randint(1, 5)
    db.executemany("insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload) values ('a.b', 'a', ?, ?)",
                   [(me, str(n + i)) for i in range(rows)])
    if random.random() < 0.2:
        db.execute("rollback")
    else:
        db.execute("commit")
        n += rows
reach(str(n))
"#;
    let mut writers: Vec<Python> = (0..3).map(|_| Python::start(&fixture.file(), program)).collect();
    let mut at = Position::START;
    let mut next = std::collections::HashMap::<String, u64>::new();
    let mut read_page = async || {
        let page = fixture.store.read(at, 50).await.unwrap();
        at = page.next;
        for entry in page.entries.iter() {
            let expected = next.entry(entry.event.aggregate_id.clone()).or_default();
            assert_eq!(
                entry.event.payload.get(),
                expected.to_string(),
                "each writer's events in order, none missing"
            );
            *expected += 1;
        }
        (page.entries.len(), next.values().sum::<u64>())
    };
    until("all three to have written something", async || {
        read_page().await;
        read_page().await.1 > 200
    })
    .await;
    let mut written = 0;
    for writer in &mut writers {
        let mut line = String::new();
        writer.output.read_line(&mut line).unwrap();
        written += line.trim_end().parse::<u64>().unwrap();
        writer.go_on();
    }
    writers.into_iter().for_each(Python::finish);
    while read_page().await.0 > 0 {}
    assert_eq!(read_page().await.1, written);
}
