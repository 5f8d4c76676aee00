//! Tickets: how a client that can send no header opens a connection. A member asks for one with its token, and the client names it in
//! the address; it is accepted once, within 30 seconds.

use std::borrow::Cow;
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::client::Client;
use crate::{Hub, Refused, evicted, hub};

/// How long a ticket is accepted.
const LIFETIME: Duration = Duration::from_secs(30);

/// A ticket, as the answer to its member.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// The ticket.
    pub ticket: String,
    /// How long it is accepted.
    pub expires_in_seconds: u64,
}

/// It is a secret.
impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

/// The data that is deposited with a ticket.
#[derive(Serialize, Deserialize)]
struct Deposit<'a> {
    #[serde(borrow)]
    hub: Cow<'a, str>,
    #[serde(borrow)]
    member: Cow<'a, str>,
    /// When the token of the member expires, in milliseconds since 1970.
    until_ms: Option<i64>,
}

impl Hub {
    /// A ticket for this client: its connection ends when the client's token expires.
    pub async fn ticket(&self, client: &Client) -> Result<Ticket> {
        let until_ms = client.until.map(|until| until.unix_timestamp_nanos() / 1_000_000);
        let deposit = Deposit {
            hub: Cow::Borrowed(&self.core.settings.name),
            member: Cow::Borrowed(&client.member),
            until_ms: until_ms.and_then(|ms| i64::try_from(ms).ok()),
        };
        let deposit = serde_json::to_string(&deposit)
            .map_err(|source| Error::caused(ErrorKind::Failed, "write a ticket", source))?;
        let ticket = self
            .core
            .shared(async |shared| shared.tickets.issue(&deposit, LIFETIME).await)
            .await?;
        Ok(Ticket {
            ticket,
            expires_in_seconds: LIFETIME.as_secs(),
        })
    }

    /// The client that this ticket was made for; `None` for one that is unknown, spent, expired or of another hub. A spent ticket
    /// whose connection was evicted is refused like its tab.
    pub async fn redeem(&self, ticket: &str) -> Result<Option<Client>, Refused> {
        let name = evicted::ticket(ticket);
        if self.core.evicted.has(name, self.core.now()) {
            return Err(Refused::Evicted);
        }
        let deposit = self
            .core
            .shared(async |shared| shared.tickets.redeem(ticket).await)
            .await
            .map_err(|error| {
                tracing::warn!(error = error.report(), "a ticket was not redeemed");
                hub::unavailable()
            })?;
        Ok(deposit.and_then(|deposit| self.client_of(&deposit, name)))
    }

    fn client_of(&self, deposit: &str, ticket: u64) -> Option<Client> {
        let deposit: Deposit<'_> = serde_json::from_str(deposit).ok()?;
        let mut client = Client::new(&*deposit.member);
        client.ticket = Some(ticket);
        client.until = deposit
            .until_ms
            .and_then(|ms| OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok());
        (deposit.hub == self.core.settings.name).then_some(client)
    }
}
