//! Limits of memory. They are measured with nothing else in the process.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use postroom_realtime::HubSettings;
use tokio::time::sleep;

use crate::stand::{Instance, settings};

/// The memory of this process that is in use, in bytes.
fn rss() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes * 1024
}

/// A client without a buffer: what is measured belongs to the server.
fn connect(instance: &Instance, member: usize) -> TcpStream {
    let mut tcp = TcpStream::connect(instance.url.trim_start_matches("http://")).unwrap();
    let request = format!(
        "GET /stand/stream?member={member}&stream=room/{member} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\
         user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Safari/537.36\r\n\
         accept-language: en-US,en;q=0.9,ko;q=0.8\r\naccept-encoding: gzip, deflate, br, zstd\r\n\
         authorization: Bearer {}\r\n\r\n",
        "x".repeat(400)
    );
    tcp.write_all(request.as_bytes()).unwrap();
    tcp
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_stream_costs_little_memory() {
    let instance = Instance::start(settings()).await;
    let count = 4_000;
    let mut clients: Vec<_> = (0..500).map(|member| connect(&instance, member)).collect();
    instance.has(clients.len()).await; // the server has grown to its working size
    let before = rss();
    for member in clients.len()..count + 500 {
        clients.push(connect(&instance, member));
        if member % 100 == 0 {
            instance.has(clients.len()).await;
        }
    }
    instance.has(clients.len()).await;
    sleep(Duration::from_secs(22)).await; // each had its ping
    let each = (rss() - before) / count;
    println!("{each} bytes per idle stream");
    assert!(each < 6 << 10, "{each} bytes");
}

/// The bytes that a stalled client of a room costs while everybody else reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_costs_at_most_two_megabytes() {
    let settings = HubSettings {
        stall_max: Duration::from_secs(600),
        ..settings()
    };
    let instance = Instance::start(settings).await;
    let mut reader = instance.open("1&stream=room/1").await;
    let text = "x".repeat(1_000);
    let (journal, mut last) = (&instance.shared.journal, 0);
    // The journal keeps little, so that its memory stays the same.
    let mut round = async || {
        for _ in 0..500 {
            let frame = journal.append_text("room/1", &text);
            instance.send("room/1", &frame).await;
        }
        last += 500;
        crate::seam::numbers(&mut reader, last).await;
        journal.prune("room/1", last - 500);
    };
    for _ in 0..10 {
        round().await;
    }
    let base = rss();
    for _ in 0..20 {
        round().await;
    }
    let without = rss().saturating_sub(base);
    let stalled = connect(&instance, 1); // of room/1
    instance.has(2).await;
    let base = rss();
    for _ in 0..20 {
        round().await;
    }
    let with = rss().saturating_sub(base);
    println!("10,000 frames cost {without} bytes, with a stalled reader {with}");
    assert!(with < without + (2 << 20), "{with} - {without}");
    drop(stalled);
}
