//! Tokens of callers.

use anyhow::Result;
use postroom::operate::token::{Scope, Token};
use time::OffsetDateTime;

use crate::age::with_date;
use crate::listing::{Cell, Listing};
use crate::output::{Tone, print};

/// Prints these tokens; those that expired before `now` say so.
pub fn list(tokens: &[Token], now: OffsetDateTime) -> Result<()> {
    if tokens.is_empty() {
        return print("there is no token; `postroom token create NAME --role admin` makes one");
    }
    let mut listing = Listing::new(&["name", "role", "begins with", "state", "last use", "scope"]);
    for token in tokens {
        let state = match (token.revoked_at, token.expires_at) {
            (Some(at), _) => Cell::new(Tone::Faint, format!("revoked {}", with_date(at))),
            (None, Some(at)) if at <= now => Cell::new(Tone::Faint, format!("expired {}", with_date(at))),
            (None, Some(at)) => Cell::new(Tone::Good, format!("until {}", with_date(at))),
            (None, None) => Cell::new(Tone::Good, "valid"),
        };
        listing.row([
            token.name.as_str().into(),
            token.role.into(),
            format!("{}…", token.hint).into(),
            state,
            token.last_used_at.map_or_else(|| "-".to_owned(), with_date).into(),
            scope(&token.scope).into(),
        ]);
    }
    print(listing.text())
}

/// `module ledger; emit ledger.**`
fn scope(scope: &Scope) -> String {
    let modules = scope.modules.iter().map(|module| format!("module {module}"));
    let emit = scope.emit.iter().map(|pattern| format!("emit {pattern}"));
    modules.chain(emit).collect::<Vec<_>>().join("; ")
}
