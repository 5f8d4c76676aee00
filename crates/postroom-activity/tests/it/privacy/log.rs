//! Everything that this process logs, with the fields of spans.

use std::io::{self, Write};
use std::sync::{LazyLock, Mutex};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

const LEVELS: &str = "info,postroom=trace,postroom_activity=trace,postroom_host=trace,postroom_http=trace,postroom_redis=trace,sqlx=debug";

static LINES: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(Mutex::default);

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins, once.
pub(crate) fn begin() {
    static BEGUN: LazyLock<()> = LazyLock::new(|| {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(LEVELS))
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(|| Lines)
            .init();
    });
    LazyLock::force(&BEGUN);
}

/// The lines so far, each once.
pub(crate) fn lines() -> Vec<String> {
    let text = String::from_utf8_lossy(&LINES.lock().unwrap()).into_owned();
    text.lines().map(str::to_owned).collect()
}
