//! The sensitive fields, which the audit masks.

/// The replacement for a sensitive value.
pub(crate) const MASK: &str = "***";

/// The sensitive fields, by event type.
const SENSITIVE: [(&str, &str); 1] = [("UserSessionCreated", "session_id")];

/// Whether a field of an event is sensitive.
pub(crate) fn is_sensitive(event_type: &str, field: &str) -> bool {
    SENSITIVE.contains(&(event_type, field))
}
