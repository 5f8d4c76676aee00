//! temporary
#![allow(clippy::all, clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use postroom::*;
use postroom_postgres::{Postgres, append};
use sqlx::{Connection, Executor, PgConnection};
use std::time::Instant;

fn ev(n: usize) -> Event {
    let p = format!(r#"{{"order":"{n}","items":[{{"sku":"abc-1","n":2}},{{"sku":"abc-2","n":1}}],"total":12345,"currency":"EUR","note":"leave at the door please, thank you very much, bell is broken"}}"#);
    Event::new("shop.order.placed.v1", "order", (n % 10000).to_string(), parse_payload(&p).unwrap()).unwrap().header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
}
fn cpu(pid: i32) -> f64 {
    let s = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) * 10_000.0
}
#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let store = Postgres::connect(&url).await.unwrap();
    let mut c = PgConnection::connect(&url).await.unwrap();
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut c).await.unwrap();
    c.execute("set synchronous_commit = off").await.unwrap();
    if std::env::args().nth(2).as_deref() == Some("emit") {
        for round in 0..5 {
            for idx in [true, false] {
                c.execute("truncate postroom.outbox").await.unwrap();
                c.execute("drop index if exists postroom.outbox_event_id").await.unwrap();
                if idx { c.execute("create index outbox_event_id on postroom.outbox (event_id)").await.unwrap(); }
                for (size, txs) in [(1usize, 10_000usize), (100, 800)] {
                    let a = cpu(pid); let t = Instant::now();
                    for i in 0..txs {
                        let mut tx = c.begin().await.unwrap();
                        append(&mut tx, &(0..size).map(|k| ev(i * size + k)).collect::<Vec<_>>()).await.unwrap();
                        tx.commit().await.unwrap();
                    }
                    let n = (size * txs) as f64;
                    println!("round {round} index {idx} rows/tx {size}: server cpu {:.1} us/row, wall {:.1} us/row", (cpu(pid) - a) / n, t.elapsed().as_secs_f64() * 1e6 / n);
                }
            }
        }
        return;
    }
    let have: i64 = sqlx::query_scalar("select count(*) from postroom.outbox").fetch_one(&mut c).await.unwrap();
    if have < 1_000_000 {
        for i in 0..10_000 {
            let mut tx = c.begin().await.unwrap();
            append(&mut tx, &(0..100).map(|k| ev(i * 100 + k)).collect::<Vec<_>>()).await.unwrap();
            tx.commit().await.unwrap();
            if i % 2 == 0 { store.pulse().await.unwrap(); }
        }
        store.pulse().await.unwrap();
    }
    println!("ticks {:?}", store.head().await.unwrap());
    let mut c2 = PgConnection::connect(&url).await.unwrap();
    for round in 0..3 {
        let mut pos = Position::START; let mut n = 0; let mut times = vec![]; let t = Instant::now();
        let a: f64 = sqlx::query_scalar::<_, i32>("select pid from pg_stat_activity where datname=current_database() and query like '%pg_visible_in_snapshot%' and pid <> pg_backend_pid()").fetch_all(&mut c2).await.unwrap().into_iter().map(cpu).sum();
        loop {
            let s = Instant::now();
            let p = store.read(pos, 1000).await.unwrap();
            times.push(s.elapsed().as_secs_f64() * 1e3);
            n += p.entries.len();
            if p.next == pos { break; }
            pos = p.next;
        }
        let w = t.elapsed().as_secs_f64();
        let b: f64 = sqlx::query_scalar::<_, i32>("select pid from pg_stat_activity where datname=current_database() and query like '%pg_visible_in_snapshot%' and pid <> pg_backend_pid()").fetch_all(&mut c2).await.unwrap().into_iter().map(cpu).sum();
        times.sort_by(f64::total_cmp);
        println!("round {round}: {n} rows in {w:.2} s = {:.0} rows/s, {} pages p50 {:.2} p99 {:.2} ms, server cpu {:.2} us/row", n as f64 / w, times.len(), times[times.len() / 2], times[times.len() * 99 / 100], (b - a) / n as f64);
    }
    let mut times = vec![];
    for _ in 0..2000 { let s = Instant::now(); store.pulse().await.unwrap(); times.push(s.elapsed().as_secs_f64() * 1e3); }
    times.sort_by(f64::total_cmp);
    println!("idle pulse p50 {:.2} p99 {:.2} ms", times[1000], times[1980]);
    let (mut pt, mut rt) = (vec![], vec![]);
    let mut pos = store.head().await.unwrap();
    c.execute("set synchronous_commit = on").await.unwrap();
    for i in 0..300 {
        append(&mut c, &[ev(i)]).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(6)).await;
        let s = Instant::now(); store.pulse().await.unwrap(); pt.push(s.elapsed().as_secs_f64() * 1e3);
        let s = Instant::now(); let p = store.read(pos, 1000).await.unwrap(); rt.push(s.elapsed().as_secs_f64() * 1e3);
        assert_eq!(p.entries.len(), 1); pos = p.next;
    }
    pt.sort_by(f64::total_cmp); rt.sort_by(f64::total_cmp);
    println!("at the head, 1 new row: pulse p50 {:.2} p99 {:.2} ms, read p50 {:.2} p99 {:.2} ms", pt[150], pt[297], rt[150], rt[297]);
}
