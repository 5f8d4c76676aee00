//! `postroom status`: where every route stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use postroom::Inspect;
use postroom::operate::{self, NextStep, counted};
use postroom_terminal::age::{age, with_date};
use postroom_terminal::board::{self, Meter};
use postroom_terminal::listing::Listing;
use postroom_terminal::output::{self, Paint, print, print_json, print_json_line};
use postroom_terminal::text;
use postroom_terminal::view::Screen;

use crate::config::Config;
use crate::signal::Signals;

const EVERY: Duration = Duration::from_secs(1);

/// Show where every route stands
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Only this route
    #[arg(long)]
    route: Option<String>,
    /// Again every second, until Ctrl-C
    #[arg(long, short)]
    watch: bool,
    /// Print JSON; with --watch one document per line
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready_to_read().await?;
        if !self.watch {
            let status = self.read(store.as_ref()).await?;
            return match self.json {
                true => print_json(&status),
                false => print(self.page(&status, None).join("\n")),
            };
        }
        self.watch(store).await
    }

    async fn watch(self, store: Arc<dyn Inspect>) -> Result<()> {
        let mut signals = Signals::listen()?;
        let mut meter = Meter::default();
        let mut screen = (output::is_terminal() && !self.json).then(Screen::enter).transpose()?;
        loop {
            let status = self.read(store.as_ref()).await?;
            match &mut screen {
                Some(screen) => screen.draw(&self.page(&status, Some(&mut meter)))?,
                None if self.json => print_json_line(&status)?,
                None => print(self.page(&status, Some(&mut meter)).join("\n"))?,
            }
            tokio::select! {
                () = signals.next() => return Ok(()),
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    async fn read(&self, store: &dyn Inspect) -> Result<operate::Status> {
        let mut status = operate::status(store).await?;
        if let Some(wanted) = &self.route {
            status.routes.retain(|route| route.route == *wanted);
            if status.routes.is_empty() {
                let all = text::next(&[NextStep::ShowRoutes { route: None }]);
                bail!("there is no route {wanted:?}; {all}");
            }
        }
        Ok(status)
    }

    fn page(&self, status: &operate::Status, meter: Option<&mut Meter>) -> Vec<String> {
        let (width, paint) = (output::columns(), Paint::detect());
        if status.routes.is_empty() {
            return vec!["no routes yet: a relay registers them when it starts (`postroom up`)".to_owned()];
        }
        let mut rows = board::rows(&status.routes);
        if let Some(meter) = meter {
            meter.measure(&mut rows, Instant::now());
        }
        let mut lines = board::listing(&rows).lines(width, paint);
        if self.route.is_none() {
            lines.push(String::new());
            lines.extend(jobs(status).lines(width, paint));
        }
        if status.scheduled > 0 {
            lines.extend([
                String::new(),
                counted(
                    status.scheduled,
                    "event waits for its time",
                    "events wait for their time",
                ),
            ]);
        }
        lines
    }
}

fn jobs(status: &operate::Status) -> Listing {
    let mut listing = Listing::new(&["job", "#runs", "#failures", "last run", "#took", "last error"]);
    for job in &status.jobs {
        let took = job.last_ms.and_then(|ms| u32::try_from(ms).ok());
        listing.row([
            job.name.as_str().into(),
            job.runs.into(),
            job.failures.into(),
            job.last_at.map(with_date).unwrap_or_default().into(),
            took.map(|ms| age(f64::from(ms) / 1000.0)).unwrap_or_default().into(),
            job.last_error.as_deref().unwrap_or_default().into(),
        ]);
    }
    listing
}
