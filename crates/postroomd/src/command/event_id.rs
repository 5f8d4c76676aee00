//! Event ids as arguments.

use uuid::Uuid;

/// Reads an event id; the error tells where ids are shown, and which commands take something else.
pub(super) fn parse(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text).map_err(|_no_uuid| {
        "this is no event id, which looks like 01990000-0000-7000-8000-000000000000: `postroom tail` shows them. For a dead \
         letter there is `postroom dead show NUMBER`, for a route `postroom status --route NAME`"
            .to_owned()
    })
}
