//! `postroom status`: where every route stands.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use postroom::Inspect;
use postroom::operate::{self, NextStep};
use postroom_terminal::board::Meter;
use postroom_terminal::output::{self, print, print_json, print_json_line};
use postroom_terminal::view::Screen;
use postroom_terminal::{page, text};

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
                false => print(self.lines(&status, None).join("\n")),
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
                Some(screen) => screen.draw(&self.lines(&status, Some(&mut meter)))?,
                None if self.json => print_json_line(&status)?,
                None => print(self.lines(&status, Some(&mut meter)).join("\n"))?,
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

    fn lines(&self, status: &operate::Status, meter: Option<&mut Meter>) -> Vec<String> {
        match self.route {
            None => page::status::lines(status, meter),
            Some(_) => page::status::route_lines(status, meter),
        }
    }
}
