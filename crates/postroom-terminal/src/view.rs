//! The live view: routes, the latest events and warnings, drawn in place while a person watches `postroom up`.

mod notes;
mod screen;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use postroom::{CancellationToken, Inspect, Position, operate};

use crate::age::{age, of_day};
use crate::board::{self, Meter, Row};
use crate::listing::Listing;
use crate::output::{self, Paint, Tone, clean, cut};

pub use notes::Notes;
pub use screen::Screen;

const EVERY: Duration = Duration::from_secs(1);
const EVENTS: usize = 8;
const NOTES: usize = 4;
/// Events looked at per frame; when more have come, the view skips to the newest.
const PAGE: usize = 500;
/// The size to draw for when the terminal does not tell.
const USUAL: (usize, usize) = (80, 24);

/// The view on the terminal, and its sources.
#[derive(Debug)]
pub struct View {
    store: Arc<dyn Inspect>,
    notes: Notes,
    header: Header,
    begun: Instant,
    meter: Meter,
    position: Option<Position>,
    events: VecDeque<Line>,
}

/// The constant lines of the view.
#[derive(Clone, Debug)]
struct Header {
    store: String,
    url: String,
}

/// An event as the view shows it.
#[derive(Clone, Debug)]
struct Line {
    at: String,
    event_type: String,
    key: String,
}

/// Everything on one picture.
#[derive(Debug)]
struct Frame<'a> {
    header: &'a Header,
    up_s: f64,
    rows: Vec<Row>,
    events: &'a VecDeque<Line>,
    notes: Vec<String>,
}

impl View {
    /// A view of this store, which is shown as `store_name`; `url` is where the process serves HTTP.
    pub fn new(store: Arc<dyn Inspect>, store_name: String, url: String, notes: Notes) -> Self {
        Self {
            store,
            notes,
            header: Header { store: store_name, url },
            begun: Instant::now(),
            meter: Meter::default(),
            position: None,
            events: VecDeque::new(),
        }
    }

    /// Draws every second until `stop`; the last picture stays on the terminal.
    pub async fn run(mut self, stop: CancellationToken) -> Result<()> {
        let mut screen = Screen::enter()?;
        let mut rows = Vec::new();
        loop {
            match self.look().await {
                Ok(seen) => rows = seen,
                Err(error) => tracing::warn!(error = error.report(), "the store could not be read"),
            }
            let (columns, height) = output::size().unwrap_or(USUAL);
            if stop.is_cancelled() {
                drop(screen);
                let mut lines = self.frame(rows).lines((columns, usize::MAX), Paint::detect());
                lines.pop(); // the hint
                lines.push(format!("stopped; everything is kept in {}", self.header.store));
                return output::print(lines.join("\n"));
            }
            let lines = self.frame(rows.clone()).lines((columns, height), Paint::detect());
            screen.draw(&lines)?;
            stop.run_until_cancelled(tokio::time::sleep(EVERY)).await;
        }
    }

    async fn look(&mut self) -> postroom::Result<Vec<Row>> {
        self.follow().await?;
        let status = operate::status(self.store.as_ref()).await?;
        let mut rows = board::rows(&status.routes);
        self.meter.measure(&mut rows, Instant::now());
        Ok(rows)
    }

    /// Takes the newest events in.
    async fn follow(&mut self) -> postroom::Result<()> {
        let position = match self.position {
            Some(position) => position,
            None => self.store.head().await?,
        };
        let page = self.store.read(position, PAGE).await?;
        for entry in page.entries.iter() {
            let event = &entry.event;
            self.events.push_back(Line {
                at: of_day(entry.created_at),
                event_type: event.event_type.clone(),
                key: event.key().to_string(),
            });
        }
        while self.events.len() > EVENTS {
            self.events.pop_front();
        }
        let is_far_behind = page.entries.len() >= PAGE;
        self.position = Some(if is_far_behind {
            self.store.head().await?
        } else {
            page.next
        });
        Ok(())
    }

    fn frame(&self, rows: Vec<Row>) -> Frame<'_> {
        Frame {
            header: &self.header,
            up_s: self.begun.elapsed().as_secs_f64(),
            rows,
            events: &self.events,
            notes: self.notes.last(NOTES),
        }
    }
}

impl Frame<'_> {
    /// At most as many lines as fit; what is dropped first is what is said last.
    fn lines(&self, (columns, rows): (usize, usize), paint: Paint) -> Vec<String> {
        let title = |text: &str| paint.paint(Tone::Faint, text);
        let mut lines = vec![
            format!(
                "{} {}  {}  up {}",
                paint.paint(Tone::Strong, "Postroom"),
                env!("CARGO_PKG_VERSION"),
                self.header.url,
                age(self.up_s)
            ),
            cut(&self.header.store, columns),
            String::new(),
        ];
        match self.rows.is_empty() {
            true => lines.push("no routes yet".to_owned()),
            false => lines.extend(board::listing(&self.rows).lines(Some(columns), paint)),
        }
        lines.extend([String::new(), title("latest events")]);
        match self.events.is_empty() {
            true => lines.push("none yet".to_owned()),
            false => lines.extend(self.latest().lines(Some(columns), paint).into_iter().skip(1)),
        }
        if !self.notes.is_empty() {
            lines.extend([String::new(), title("warnings")]);
            lines.extend(self.notes.iter().map(|note| cut(&clean(note), columns)));
        }
        let hint = "Ctrl-C stops; elsewhere: postroom status | tail -f | why | dead list";
        lines.extend([String::new(), title(&cut(hint, columns))]);
        lines.truncate(rows.max(1));
        lines
    }

    fn latest(&self) -> Listing {
        let mut listing = Listing::new(&["at", "type", "key"]);
        for line in self.events {
            listing.row([
                line.at.as_str().into(),
                line.event_type.as_str().into(),
                line.key.as_str().into(),
            ]);
        }
        listing
    }
}

#[cfg(test)]
mod tests {
    use postroom::operate::RouteState;

    use super::*;

    #[test]
    fn a_frame_shows_routes_events_and_warnings() {
        let row = |name: &str, parked, dead, state| Row {
            name: name.to_owned(),
            delivered: 120,
            rate: Some(1.0),
            backlog: 2,
            oldest_s: Some(0.25),
            parked,
            dead,
            state,
            probe_s: None,
        };
        let event = |id: &str| Line {
            at: "12:00:01.250".to_owned(),
            event_type: "hello.order.placed.v1".to_owned(),
            key: format!("order/{id}"),
        };
        let frame = Frame {
            header: &Header {
                store: "sqlite://postroom-data/postroom.db".to_owned(),
                url: "http://127.0.0.1:8080".to_owned(),
            },
            up_s: 125.0,
            rows: vec![
                row("hello-flaky", 2, 1, RouteState::Working),
                row(
                    "orders",
                    0,
                    0,
                    RouteState::Down {
                        says: "connection refused".to_owned(),
                    },
                ),
            ],
            events: &VecDeque::from([event("1"), event("2\x1b[2J")]),
            notes: vec!["entry became a dead letter route=hello-flaky".to_owned()],
        };
        insta::assert_snapshot!(frame.lines((80, 40), Paint::off()).join("\n"));
        assert_eq!(
            frame.lines((80, 5), Paint::off()).len(),
            5,
            "it never scrolls a small terminal"
        );
    }
}
