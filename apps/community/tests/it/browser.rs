//! The community in Chromium: the client module, the browser's own `EventSource`, and the demonstration.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod chat;
mod demo;
mod notifications;
mod site;

use postroom_testkit::browser::{Browser, Page};
use serde_json::Value;

use site::Site;

/// The script that every page of a test runs first.
const LOAD: &str = "import('/realtime/client.js').then((module) => { \
    Object.assign(globalThis, { client: module, got: [], states: [], asked: [] }); \
    globalThis.until = async (is) => { while (!is()) await new Promise((done) => setTimeout(done, 20)); return true; }; })";

/// A browser, and a community that it can reach.
struct Stand {
    browser: Browser,
    site: Site,
}

impl Stand {
    async fn start() -> Self {
        Self {
            browser: Browser::start(),
            site: Site::start().await,
        }
    }

    /// Opens a tab with the client as `client`.
    async fn tab(&mut self) -> Page {
        let page = self.browser.open(&format!("{}/page", self.site.url())).await;
        self.browser.run(&page, LOAD).await;
        page
    }

    /// Opens a tab that receives the notifications of a member, with these options besides the usual ones, and waits until it does.
    async fn receiving(&mut self, member: i64, options: &str) -> Page {
        let page = self.tab().await;
        self.connect(&page, "connectNotifications", member, options).await;
        self.until(&page, "stream.state === 'open' && got.length > 0").await;
        page
    }

    /// Connects a tab as `stream`, by this function of the client.
    async fn connect(&mut self, page: &Page, function: &str, member: i64, options: &str) {
        let token = self.site.token(member);
        let script = format!(
            "globalThis.stream = client.{function}({{ url: '/api/notifications/stream', backoffMaxMs: 500, \
             token: async ({{ isStale }}) => {{ asked.push(isStale); return '{token}'; }}, onEvent: (event) => got.push(event), \
             onState: ({{ state, reason }}) => states.push(reason ? `${{state}} ${{reason}}` : state), ...{options} }}); 0"
        );
        self.browser.run(page, &script).await;
    }

    async fn run(&mut self, page: &Page, script: &str) -> Value {
        self.browser.run(page, script).await
    }

    /// Waits until a condition is true in a tab.
    async fn until(&mut self, page: &Page, is_so: &str) {
        let is_so = format!("until(() => {is_so})");
        assert_eq!(self.browser.run(page, &is_so).await, true);
    }

    /// The numbers of the events that a tab has received after it was told to begin, up to this one.
    async fn numbers(&mut self, page: &Page, last: i64) -> Vec<i64> {
        self.until(page, &format!("got.at(-1)?.seq >= {last}")).await;
        let numbers = "got.filter(({ event }) => event !== 'reset').map(({ seq }) => seq)";
        serde_json::from_value(self.run(page, numbers).await).unwrap()
    }

    async fn assert_no_errors(&mut self, page: &Page) {
        assert_eq!(self.browser.errors(page).await, Vec::<String>::new());
    }
}

fn through(first: i64, last: i64) -> Vec<i64> {
    (first..=last).collect()
}
