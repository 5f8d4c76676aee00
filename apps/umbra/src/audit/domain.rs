//! What the audit does not show.

/// What stands in place of what is sensitive.
pub(crate) const MASK: &str = "***";

/// Which fields of which events are sensitive.
const SENSITIVE: [(&str, &str); 1] = [("UserSessionCreated", "session_id")];

/// Whether a field of an event is sensitive.
pub(crate) fn is_sensitive(event_type: &str, field: &str) -> bool {
    SENSITIVE.contains(&(event_type, field))
}
