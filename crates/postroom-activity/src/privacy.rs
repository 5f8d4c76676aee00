//! Cleans activity events before they are stored. Events from every source pass the PII firewall here.

mod screen;
mod trace;

use std::ops::Deref;
use std::sync::OnceLock;

use postroom::{Error, Result};
use postroom_host::Module;
use postroom_host::prometheus_client::metrics::counter::Counter;
use postroom_host::prometheus_client::metrics::family::Family;
use postroom_pii::{Cleaned, ClientMode, Firewall, Keys, KeywordMode, Kind, Removed, Rules};
use serde_json::{Map, Value};
use time::UtcOffset;

use crate::event::{ActivityEvent, column_max};
use crate::settings::PiiSettings;

pub(crate) use trace::{ADDRESS, ClientTrace, USER_AGENT};

const PROPERTIES: &str = "properties";

/// Properties with searched words, and the names of their hashes.
const SEARCHED_WORDS: [(&str, &str); 2] = [("query", "queryHash"), ("keyword", "keywordHash")];

type TextOf = fn(&mut ActivityEvent) -> Option<&mut String>;

/// The texts of an event besides its properties. The flag says whether a text identifies an event, a person or a device. Such a
/// text is replaced by its hash instead of a mark, so that it still identifies it.
const TEXTS: [(&str, bool, TextOf); 11] = [
    ("eventId", true, |event| Some(&mut event.event_id)),
    ("eventName", false, |event| Some(&mut event.event_name)),
    ("eventVersion", false, |event| Some(&mut event.event_version)),
    ("anonymousId", true, |event| event.anonymous_id.as_mut()),
    ("sessionId", true, |event| event.session_id.as_mut()),
    ("requestPath", false, |event| event.request_path.as_mut()),
    ("requestMethod", false, |event| event.request_method.as_mut()),
    ("deviceId", true, |event| event.device_id.as_mut()),
    ("platform", false, |event| event.platform.as_mut()),
    ("appVersion", false, |event| event.app_version.as_mut()),
    ("locale", false, |event| event.locale.as_mut()),
];

/// An event that has passed the firewall and is within every limit. Only such events are stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Admitted(ActivityEvent);

impl Deref for Admitted {
    type Target = ActivityEvent;

    fn deref(&self) -> &ActivityEvent {
        &self.0
    }
}

impl From<Admitted> for ActivityEvent {
    fn from(Admitted(event): Admitted) -> Self {
        event
    }
}

/// Removes personal data from activity events, and counts what it removes.
#[derive(Debug)]
pub struct Privacy {
    /// Without keys, every event is refused.
    keys: Option<Keys>,
    rules: Rules,
    /// Made at the first event. A command that only shows the module does not need it.
    firewall: OnceLock<Option<Firewall>>,
    keyword_mode: KeywordMode,
    stores_address: bool,
    stores_user_agent: bool,
    removed: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Privacy {
    /// Follows these settings. The keys are used if the settings have no secret.
    pub fn new(settings: &PiiSettings, keys: Option<Keys>) -> Result<Self> {
        let own = settings.keys().map_err(Error::invalid)?;
        let keys = own.or(keys).ok_or_else(|| Error::invalid(NO_SECRET))?;
        let mode = |is_stored: bool| match is_stored {
            true => ClientMode::Hash,
            false => ClientMode::Drop,
        };
        let rules = Rules::default()
            .keywords(settings.keyword_mode)
            .addresses(mode(settings.store_ip))
            .user_agents(mode(settings.store_user_agent));
        Ok(Self {
            keys: Some(keys),
            rules,
            keyword_mode: settings.keyword_mode,
            stores_address: settings.store_ip,
            stores_user_agent: settings.store_user_agent,
            ..Self::closed()
        })
    }

    /// The default rules with these keys.
    pub fn with_keys(keys: Keys) -> Result<Self> {
        Self::new(&PiiSettings::default(), Some(keys))
    }

    /// One that refuses every event, for a module that has no secret and does not run.
    pub(crate) fn closed() -> Self {
        Self {
            keys: None,
            rules: Rules::default(),
            firewall: OnceLock::new(),
            keyword_mode: KeywordMode::Drop,
            stores_address: false,
            stores_user_agent: false,
            removed: Family::default(),
        }
    }

    /// The firewall with the rules of the settings.
    pub fn firewall(&self) -> Result<&Firewall> {
        let make = || Firewall::new(self.rules.clone(), self.keys.clone()?).ok();
        let firewall = self.firewall.get_or_init(make).as_ref();
        firewall.ok_or_else(|| Error::invalid(NO_SECRET))
    }

    /// The event as it is stored and sent. Its time has milliseconds in UTC, as every database can keep it, so that it is the same
    /// whenever the event is read and sent again.
    pub(crate) fn admit(&self, event: ActivityEvent) -> Result<Admitted> {
        event.check()?;
        let mut event = self.clean(event)?;
        let at = event.occurred_at.to_offset(UtcOffset::UTC);
        event.occurred_at = at.truncate_to_millisecond();
        event.check()?;
        Ok(Admitted(event))
    }

    /// The event of a client, with the hashes of the client that are stored.
    pub(crate) fn admit_from(&self, event: ActivityEvent, client: &ClientTrace) -> Result<Admitted> {
        let Admitted(mut event) = self.admit(event)?;
        client.mark(&mut event.properties);
        Ok(Admitted(event))
    }

    /// The hashes of a client that are stored with its events.
    pub(crate) fn trace(&self, address: &str, user_agent: Option<&str>) -> ClientTrace {
        let hash = |text: &str| Some(self.keys.as_ref()?.hash(text));
        ClientTrace {
            address: Some(address).filter(|_| self.stores_address).and_then(hash),
            user_agent: user_agent.filter(|_| self.stores_user_agent).and_then(hash),
        }
    }

    /// Adds the counts of what was removed to the metrics of the module.
    pub(crate) fn register(&self, module: Module) -> Module {
        let removed = self.removed.clone();
        let says = "Personal data and secrets that were removed or hashed before anything was stored, by their kind";
        module.metrics(move |registry| registry.register("pii_removed", says, removed))
    }

    fn clean(&self, mut event: ActivityEvent) -> Result<ActivityEvent> {
        let firewall = self.firewall()?;
        let texts = TEXTS
            .iter()
            .filter_map(|(name, _, text)| Some(((*name).to_owned(), Value::String(text(&mut event)?.clone()))));
        let mut document: Map<String, Value> = texts.collect();
        document.insert(
            PROPERTIES.to_owned(),
            Value::Object(std::mem::take(&mut event.properties)),
        );
        let Cleaned { value, removed } = firewall.clean(Value::Object(document));
        let Value::Object(mut cleaned) = value else {
            return Err(Error::invalid("the firewall has left nothing of the event"));
        };
        self.put_back(firewall, &mut cleaned, &mut event);
        if let Some(Value::Object(properties)) = cleaned.remove(PROPERTIES) {
            event.properties = properties;
        }
        self.rename_searched_words(&mut event.properties);
        self.count(&removed);
        Ok(event)
    }

    /// Gives an event its cleaned texts.
    fn put_back(&self, firewall: &Firewall, cleaned: &mut Map<String, Value>, event: &mut ActivityEvent) {
        for (name, is_identity, text) in TEXTS {
            let Some(text) = text(event) else { continue };
            // A text that is gone leaves an empty one. None of these keys is denied.
            let clean = match cleaned.remove(name) {
                Some(Value::String(clean)) => clean,
                _ => String::new(),
            };
            if clean != *text {
                let replaced = match is_identity {
                    true => pseudonym(firewall, text),
                    false => clean,
                };
                *text = self.fitted(firewall, replaced, column_max(name));
            }
        }
    }

    /// Cuts a cleaned text to the length of its column: a mark or a hash can be longer than the text that it replaces. If the
    /// firewall would change the cut text once more, a mark replaces it.
    fn fitted(&self, firewall: &Firewall, text: String, chars_max: usize) -> String {
        let Some((end, _)) = text.char_indices().nth(chars_max) else {
            return text;
        };
        let cut = text.get(..end).unwrap_or_default();
        if firewall.clean_text(cut).value == cut {
            return cut.to_owned();
        }
        self.removed.get_or_create(&[("kind", Kind::TooLong.name())]).inc();
        Kind::TooLong.mark().to_owned()
    }

    /// The hashes of searched words have names that say so.
    fn rename_searched_words(&self, properties: &mut Map<String, Value>) {
        if self.keyword_mode != KeywordMode::Hash {
            return;
        }
        for (words, hash) in SEARCHED_WORDS {
            let found = properties.remove(words).filter(|found| !is_blank(found));
            properties.extend(found.map(|found| (hash.to_owned(), found)));
        }
    }

    fn count(&self, removed: &Removed) {
        for (kind, count) in removed.iter() {
            self.removed.get_or_create(&[("kind", kind.name())]).inc_by(count);
        }
    }
}

/// The reason why a process does not start without a secret, and the way out.
const NO_SECRET: &str = "pii.hash_secret is missing: searched words and ids with personal data are stored as keyed hashes. Make a secret \
     with `openssl rand -base64 48` and give it to every process, as hash_secret in [modules.activity.pii] or as \
     ANALYTICS_HASH_SECRET; in code, with Activity::hash_keys";

/// The hash that replaces an id with personal data in it. Ids that differ have different hashes, also if they differ in case only.
fn pseudonym(firewall: &Firewall, id: &str) -> String {
    use std::fmt::Write as _;
    let mut digits = String::with_capacity(2 * id.len());
    for byte in id.bytes() {
        let _always = write!(digits, "{byte:02x}");
    }
    firewall.keys().hash(&digits)
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
