//! The client for browsers in Chromium, against a server that does what a test says.

mod chat;
mod scripted;
mod stream;
mod tabs;

use postroom_testkit::browser::{Browser, Page};
use serde_json::{Value, json};

pub(crate) use scripted::Scripted;

/// A browser, and a server with a page.
pub(crate) struct Stand {
    pub(crate) browser: Browser,
    pub(crate) server: Scripted,
}

impl Stand {
    pub(crate) async fn start() -> Self {
        Self {
            browser: Browser::start(),
            server: Scripted::start().await,
        }
    }

    /// Opens a tab with the client as `client`.
    pub(crate) async fn tab(&mut self) -> Page {
        let page = self.browser.open(&format!("{}/page", self.server.url)).await;
        self.load(&page).await;
        page
    }

    /// Loads the client into a page.
    pub(crate) async fn load(&mut self, page: &Page) {
        let load = "import('/realtime/client.js').then((module) => { \
            Object.assign(globalThis, { client: module, got: [], states: [], asked: [] }); \
            globalThis.jwt = (sub, exp = 4e9) => ['', JSON.stringify({ sub, exp }), ''].map(btoa).join('.'); \
            globalThis.until = async (is) => { while (!is()) await new Promise((done) => setTimeout(done, 5)); return true; }; })";
        self.browser.run(page, load).await;
    }

    /// Opens a tab that receives notifications, with these options besides the usual ones.
    pub(crate) async fn receiving(&mut self, options: &str) -> Page {
        let page = self.tab().await;
        self.connect(&page, options).await;
        page
    }

    /// Lets a tab receive notifications as `stream`. Its events are in `got`, its states in `states`, and whether each token that
    /// it asked for was to be a new one in `asked`.
    pub(crate) async fn connect(&mut self, page: &Page, options: &str) {
        let script = format!(
            "globalThis.stream = client.connectNotifications({{ url: '/stream', backoffMaxMs: 100, \
             token: async ({{ isStale }}) => {{ asked.push(isStale); return jwt('1'); }}, \
             onEvent: (event) => got.push(event), \
             onState: ({{ state, reason }}) => states.push(reason ? `${{state}} ${{reason}}` : state), ...{options} }}); 0"
        );
        self.browser.run(page, &script).await;
    }

    pub(crate) async fn run(&mut self, page: &Page, script: &str) -> Value {
        self.browser.run(page, script).await
    }

    /// Waits until something is so in a tab.
    pub(crate) async fn until(&mut self, page: &Page, is_so: &str) {
        let is_so = format!("until(() => {is_so})");
        assert_eq!(self.browser.run(page, &is_so).await, true);
    }

    /// Waits until a tab has received the last event, and answers the numbers of all.
    pub(crate) async fn numbers(&mut self, page: &Page) -> Vec<u64> {
        let top = self.server.script.events();
        self.until(page, &format!("got.at(-1)?.seq >= {top}")).await;
        let numbers = "got.filter(({ event }) => event === 'notification').map(({ seq }) => seq)";
        serde_json::from_value(self.run(page, numbers).await).unwrap()
    }

    /// Checks that the console of a tab has no errors.
    pub(crate) async fn assert_no_errors(&mut self, page: &Page) {
        assert_eq!(self.browser.errors(page).await, Vec::<String>::new());
    }

    /// The reasons with which a tab was told to begin anew.
    pub(crate) async fn resets(&mut self, page: &Page) -> Value {
        let resets = "got.filter(({ event }) => event === 'reset').map(({ data }) => data.reason)";
        self.run(page, resets).await
    }
}

/// The numbers from the first to the last.
pub(crate) fn through(first: u64, last: u64) -> Vec<u64> {
    (first..=last).collect()
}

pub(crate) fn none() -> Value {
    json!([])
}
