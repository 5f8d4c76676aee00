//! temporary
#![allow(clippy::all, warnings)]
use postroom::*;
use postroom_mysql::Mysql;
use sea_orm::SqlxMySqlConnector;
use sqlx::mysql::*;
use sqlx::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use uuid::Uuid;

fn cpu() -> (f64, f64) {
    let f = |p: &str| {
        let s = std::fs::read_to_string(p).unwrap();
        let v: Vec<&str> = s.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (v[11].parse::<f64>().unwrap() + v[12].parse::<f64>().unwrap()) / 100.0
    };
    let pid = std::fs::read_to_string("/tmp/mymaria/pid").unwrap();
    (f(&format!("/proc/{}/stat", pid.trim())), f("/proc/self/stat"))
}
async fn fresh() -> (String, MySqlPool) {
    let admin = std::env::var("POSTROOM_TEST_MYSQL_URL").unwrap();
    let name = format!("postroom_test_{}", Uuid::now_v7().simple());
    let mut c = MySqlConnection::connect(&admin).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("create database {name}")))
        .execute(&mut c)
        .await
        .unwrap();
    let url = format!("{}/{name}", admin.rsplit_once('/').unwrap().0);
    let one = MySqlPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let store = Mysql::connect(&url).await.unwrap();
    migration::up(
        &SqlxMySqlConnector::from_sqlx_mysql_pool(one),
        "postroom",
        store.migrations(),
    )
    .await
    .unwrap();
    let pool = MySqlPoolOptions::new().max_connections(40).connect(&url).await.unwrap();
    (url, pool)
}
fn ev(k: usize) -> Event {
    Event::new(
        "shop.order.placed.v1",
        "order",
        k.to_string(),
        parse_payload(&format!("{{\"x\":\"{}\"}}", "y".repeat(190))).unwrap(),
    )
    .unwrap()
}
fn pct(v: &mut Vec<f64>, p: f64) -> f64 {
    v.sort_by(|a, b| a.partial_cmp(b).unwrap());
    v[((v.len() - 1) as f64 * p) as usize]
}

#[tokio::main]
async fn main() {
    let what = std::env::args().nth(1).unwrap();
    let (url, pool) = fresh().await;
    let store = Arc::new(Mysql::connect(&url).await.unwrap());
    match what.as_str() {
        "drain" => {
            let events: Vec<Event> = (0..200_000).map(|n| ev(n % 5000)).collect();
            let c0 = cpu();
            let t = Instant::now();
            for chunk in events.chunks(5000) {
                let mut tx = pool.begin().await.unwrap();
                postroom_mysql::append(&mut tx, chunk).await.unwrap();
                tx.commit().await.unwrap();
            }
            let c1 = cpu();
            println!("append cpu: server {:.2} s, client {:.2} s", c1.0 - c0.0, c1.1 - c0.1);
            println!("append {:.0}/s", 200_000.0 / t.elapsed().as_secs_f64());
            let c0 = cpu();
            let t = Instant::now();
            let mut n = 0;
            let mut slow: Duration = Duration::ZERO;
            loop {
                let a = Instant::now();
                let p = store.pulse().await.unwrap();
                n += 1;
                slow = slow.max(a.elapsed());
                if !p.more {
                    println!("head {}", p.head);
                    break;
                }
            }
            println!(
                "drain {:.0}/s in {n} pulses, slowest {slow:?}",
                200_000.0 / t.elapsed().as_secs_f64()
            );
            let c1 = cpu();
            println!("drain cpu: server {:.2} s, client {:.2} s", c1.0 - c0.0, c1.1 - c0.1);
            let c0 = cpu();
            let t = Instant::now();
            let mut pos = Position::START;
            let mut c = 0;
            let mut v = vec![];
            loop {
                let a = Instant::now();
                let p = store.read(pos, 1000).await.unwrap();
                if p.entries.is_empty() {
                    break;
                }
                c += p.entries.len();
                pos = p.next;
                v.push(a.elapsed().as_secs_f64() * 1e3);
            }
            println!(
                "read {:.0}/s page p50 {:.2} p99 {:.2} ms",
                c as f64 / t.elapsed().as_secs_f64(),
                pct(&mut v, 0.5),
                pct(&mut v, 0.99)
            );
            let c1 = cpu();
            println!("read cpu: server {:.2} s, client {:.2} s", c1.0 - c0.0, c1.1 - c0.1);
            let t = Instant::now();
            let mut c = 0;
            loop {
                let k = store
                    .prune(&Prune {
                        keep: Duration::ZERO,
                        batch: 5000,
                        archive: false,
                    })
                    .await
                    .unwrap();
                if k == 0 {
                    break;
                }
                c += k;
            }
            println!("prune {:.0}/s", c as f64 / t.elapsed().as_secs_f64());
            let mut v = vec![];
            for _ in 0..3000 {
                let a = Instant::now();
                store.pulse().await.unwrap();
                v.push(a.elapsed().as_secs_f64() * 1e3);
            }
            println!("idle pulse p50 {:.3} p99 {:.3} ms", pct(&mut v, 0.5), pct(&mut v, 0.99));
        }
        "latency" => {
            let rate: f64 = std::env::args().nth(2).unwrap().parse().unwrap();
            let gap: f64 = std::env::args().nth(3).unwrap().parse().unwrap();
            let other = std::env::args().nth(4).is_some();
            let secs = 8.0;
            let committed: Arc<Mutex<HashMap<Uuid, Instant>>> = Default::default();
            let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let mut set = tokio::task::JoinSet::new();
            let start = Instant::now();
            let took: Arc<Mutex<Vec<f64>>> = Default::default();
            for w in 0..16 {
                let (pool, committed, took) = (pool.clone(), committed.clone(), took.clone());
                set.spawn(async move {
                    let mut conn = pool.acquire().await.unwrap();
                    let mut i = 0u32;
                    while start.elapsed().as_secs_f64() < secs {
                        let at = start + Duration::from_secs_f64((i as f64 + w as f64 / 16.0) * 16.0 / rate);
                        tokio::time::sleep_until(at.into()).await;
                        i += 1;
                        let e = ev(w * 1000 + (i % 100) as usize);
                        let id = e.id;
                        let t0 = Instant::now();
                        let mut tx = conn.begin().await.unwrap();
                        postroom_mysql::append(&mut tx, &[e]).await.unwrap();
                        tx.commit().await.unwrap();
                        took.lock().unwrap().push(t0.elapsed().as_secs_f64() * 1e3);
                        committed.lock().unwrap().insert(id, Instant::now());
                    }
                });
            }
            let d2 = done.clone();
            let lead = store.clone();
            let reader = if other {
                Arc::new(Mysql::connect(&url).await.unwrap())
            } else {
                store.clone()
            };
            let h = tokio::task::spawn(async move {
                let mut got: Vec<(Uuid, Instant)> = vec![];
                let mut pos = Position::START;
                let mut head = 0;
                let mut pulses = 0;
                while !d2.load(std::sync::atomic::Ordering::Relaxed) {
                    let p = reader.pulse().await.unwrap();
                    pulses += 1;
                    if p.head > head {
                        head = p.head;
                        loop {
                            let page = reader.read(pos, 1000).await.unwrap();
                            let now = Instant::now();
                            if page.entries.is_empty() {
                                break;
                            }
                            got.extend(page.entries.iter().map(|e| (e.event.id, now)));
                            let full = page.entries.len() == 1000;
                            pos = page.next;
                            if !full {
                                break;
                            }
                        }
                    } else {
                        tokio::time::sleep(Duration::from_secs_f64(gap / 1e3)).await;
                    }
                }
                (got, pulses)
            });
            let d3 = done.clone();
            let g = tokio::task::spawn(async move {
                if other {
                    while !d3.load(std::sync::atomic::Ordering::Relaxed) {
                        let p = lead.pulse().await.unwrap();
                        tokio::time::sleep(Duration::from_secs_f64(gap / 1e3)).await;
                    }
                }
            });
            while set.join_next().await.is_some() {}
            let n = committed.lock().unwrap().len();
            tokio::time::sleep(Duration::from_millis(500)).await;
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            let (got, pulses) = h.await.unwrap();
            g.await.unwrap();
            {
                let mut t = took.lock().unwrap();
                println!(
                    "writer's own transaction: p50 {:.2} p99 {:.2} ms",
                    pct(&mut t, 0.5),
                    pct(&mut t, 0.99)
                );
            }
            let c = committed.lock().unwrap();
            let mut v: Vec<f64> = got
                .iter()
                .map(|(id, at)| at.checked_duration_since(c[id]).map_or(0.0, |d| d.as_secs_f64() * 1e3))
                .collect();
            println!(
                "rate {:.0}/s committed {n} got {} pulses {pulses}: p50 {:.2} p90 {:.2} p99 {:.2} max {:.2} ms",
                n as f64 / secs,
                got.len(),
                pct(&mut v, 0.5),
                pct(&mut v, 0.9),
                pct(&mut v, 0.99),
                pct(&mut v, 1.0)
            );
        }
        "writers" => {
            for with in [false, true, false, true] {
                let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
                let (st, s2) = (stop.clone(), store.clone());
                let h = tokio::task::spawn(async move {
                    let mut slow = Duration::ZERO;
                    while with && !st.load(std::sync::atomic::Ordering::Relaxed) {
                        let a = Instant::now();
                        let p = s2.pulse().await.unwrap();
                        slow = slow.max(a.elapsed());
                        if !p.more {
                            tokio::time::sleep(Duration::from_millis(2)).await
                        }
                    }
                    slow
                });
                let start = Instant::now();
                let mut set = tokio::task::JoinSet::new();
                for w in 0..16 {
                    let pool = pool.clone();
                    set.spawn(async move {
                        let mut conn = pool.acquire().await.unwrap();
                        let mut n = 0;
                        while start.elapsed().as_secs() < 5 {
                            let mut tx = conn.begin().await.unwrap();
                            postroom_mysql::append(&mut tx, &[ev(w * 100 + n % 100)]).await.unwrap();
                            tx.commit().await.unwrap();
                            n += 1;
                        }
                        n
                    });
                }
                let mut n = 0;
                while let Some(k) = set.join_next().await {
                    n += k.unwrap();
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                let slow = h.await.unwrap();
                let t = Instant::now();
                while store.pulse().await.unwrap().more {}
                println!(
                    "sequencer {with}: {:.0} commits/s, rest drained in {:?}, slowest pulse {slow:?}",
                    n as f64 / 5.0,
                    t.elapsed()
                );
            }
        }
        "twin" => {
            let secs: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
            let two = std::env::args().nth(3).is_some();
            sqlx::raw_sql("create table agg (id int primary key, ver bigint not null); create table elsewhere (id int primary key, n int not null); insert into agg values (0,0),(1,0),(2,0)").execute(&pool).await.unwrap();
            for w in 0..16 {
                sqlx::raw_sql(AssertSqlSafe(format!("insert into elsewhere values ({w},0)")))
                    .execute(&pool)
                    .await
                    .unwrap();
            }
            let until = Instant::now() + Duration::from_secs(secs);
            let mut set = tokio::task::JoinSet::new();
            for w in 0..16u32 {
                let pool = pool.clone();
                set.spawn(async move { let mut conn = pool.acquire().await.unwrap(); let mut k = w; while Instant::now() < until { k = (k * 7 + 3) % 3; let sql = format!("start transaction; update elsewhere set n=n+1 where id={w}; update agg set ver=ver+1 where id={k}; insert into postroom_incoming (event_id,event_type,aggregate_type,aggregate_id,payload) select uuid(),'t','agg',{k},json_object('ver',ver) from agg where id={k}; commit"); if sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.is_err() { sqlx::raw_sql("rollback").execute(&mut *conn).await.unwrap(); } k += 1; } });
            }
            let mut c = MySqlConnection::connect(&url).await.unwrap();
            sqlx::query("set session transaction isolation level read committed")
                .execute(&mut c)
                .await
                .unwrap();
            let (mut next, mut steps, mut tears) = (0i64, 0, 0);
            loop {
                let mut tx = sqlx::Connection::begin(&mut c).await.unwrap();
                let v1: Vec<(i64, String, String)> = sqlx::query_as(include_str!("../sql/look.sql"))
                    .bind(1000u32)
                    .fetch_all(&mut *tx)
                    .await
                    .unwrap();
                if v1.is_empty() {
                    tx.rollback().await.unwrap();
                    if Instant::now() > until {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                let v2: Vec<(i64, String, String)> = sqlx::query_as(include_str!("../sql/look_again.sql"))
                    .bind(v1.last().unwrap().0)
                    .fetch_all(&mut *tx)
                    .await
                    .unwrap();
                let hi: HashMap<&str, i64> = v1.iter().map(|r| (r.2.as_str(), r.0)).collect();
                let cut: Vec<i64> = v2
                    .iter()
                    .filter(|r| hi.get(r.2.as_str()).is_some_and(|h| r.0 <= *h))
                    .map(|r| r.0)
                    .collect();
                if cut.len() > v1.len() {
                    tears += 1;
                }
                let ids: Vec<i64> = if two { cut } else { v1.iter().map(|r| r.0).collect() };
                let m = sqlx::query(include_str!("../sql/move_in.sql"))
                    .bind(next)
                    .bind(serde_json::to_string(&ids).unwrap())
                    .execute(&mut *tx)
                    .await
                    .unwrap()
                    .rows_affected();
                let d = sqlx::query(include_str!("../sql/move_out.sql"))
                    .bind(next)
                    .bind(next + m as i64)
                    .execute(&mut *tx)
                    .await
                    .unwrap()
                    .rows_affected();
                assert_eq!(m, d);
                assert_eq!(m as usize, ids.len());
                tx.commit().await.unwrap();
                next += m as i64;
                steps += 1;
            }
            while set.join_next().await.is_some() {}
            let rows: Vec<(String, i64)> = sqlx::query_as(
                "select aggregate_id, cast(json_value(payload,'$.ver') as signed) from postroom_outbox order by id",
            )
            .fetch_all(&pool)
            .await
            .unwrap();
            let mut last: HashMap<String, i64> = HashMap::new();
            let mut inv = 0;
            for (k, v) in rows.iter() {
                let l = last.entry(k.clone()).or_default();
                if *v < *l {
                    inv += 1
                }
                if *v > *l {
                    *l = *v
                }
            }
            println!(
                "looks {}: {} events, {steps} steps, tears seen {tears}, inversions {inv}",
                if two { 2 } else { 1 },
                rows.len()
            );
        }
        _ => panic!(),
    }
    let name = url.rsplit('/').next().unwrap().to_owned();
    sqlx::raw_sql(AssertSqlSafe(format!("drop database {name}")))
        .execute(&pool)
        .await
        .unwrap();
}
