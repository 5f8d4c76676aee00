//! `umbra-notification`: sends one message per event to the affected user.
//!
//! It also learns the owners of guilds, subscriptions and licences from events; those events cause no message.

use std::sync::Arc;

use postroom::{BoxError, Database, DomainEvent, Error, ErrorKind, Event, ExternalTask, Result, Tx};

use super::dm::{Dm, Message, Sent};
use super::domain::{Address, canceled, payment_failed, plan_name, reason, refunded};
use super::tables::{self, Notice};
use crate::billing::events::{
    PaymentFailed, PaymentFailedFinal, PaymentRefunded, PlanDowngraded, PlanUpgraded, SubscriptionCanceled,
    SubscriptionStarted, USER_ID,
};
use crate::guild::events::{BotInstalled, GuildOwnerChanged};
use crate::licensing::events::{LicenseDowngraded, LicenseGranted, LicenseSuspended};
use crate::order::mark;
use crate::recovery::events::{AntiNukeActioned, AntiNukeTriggered, RestoreCompleted, RestoreFailed, RestoreStarted};

/// The events that cause a message.
pub(crate) const NOTICES: [&str; 14] = [
    SubscriptionStarted::TYPE,
    PaymentFailed::TYPE,
    PaymentFailedFinal::TYPE,
    PaymentRefunded::TYPE,
    SubscriptionCanceled::TYPE,
    PlanUpgraded::TYPE,
    PlanDowngraded::TYPE,
    LicenseDowngraded::TYPE,
    LicenseSuspended::TYPE,
    RestoreStarted::TYPE,
    RestoreCompleted::TYPE,
    RestoreFailed::TYPE,
    AntiNukeTriggered::TYPE,
    AntiNukeActioned::TYPE,
];

/// The events that only change an address.
pub(crate) const ADDRESSES: [&str; 3] = [BotInstalled::TYPE, GuildOwnerChanged::TYPE, LicenseGranted::TYPE];

/// Notification, with its port for direct messages.
#[derive(Clone, Debug)]
pub(crate) struct Notification {
    pub(crate) dm: Arc<dyn Dm>,
}

/// Discord may answer slowly, so it is called outside any transaction.
impl ExternalTask for Notification {
    async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
        let tx = db.begin().await?;
        learn(&tx, event).await?;
        let message = message(&tx, event).await?;
        tx.commit().await?;
        match message {
            Some(message) => Ok(self.tell(db, message).await?),
            None => Ok(()),
        }
    }
}

impl Notification {
    /// Sends a message and records it.
    async fn tell(&self, db: &Database, message: Message) -> Result<()> {
        let status = match self.dm.send(&message).await {
            Sent::Delivered => "delivered",
            Sent::Closed => "closed",
            Sent::Limited { retry_after } => {
                let says = format!("Discord's rate limit is reached (429); retry after {retry_after:?}");
                return Err(Error::new(ErrorKind::Failed, says));
            }
            Sent::Failed { says } => return Err(Error::new(ErrorKind::Failed, format!("send a message: {says}"))),
        };
        let notice = Notice {
            event_id: message.nonce,
            user_id: message.user_id,
            content: message.content,
            status: status.to_owned(),
        };
        let tx = db.begin().await?;
        if !tables::is_sent(&tx, &notice.event_id).await? {
            tables::insert(&tx, &notice).await?;
        }
        tx.commit().await
    }
}

/// The message for an event, unless it was sent before. Pattern 2, event id deduplication: the event id is the key of the
/// notice and the nonce of the message.
async fn message(tx: &Tx, event: &Event) -> Result<Option<Message>> {
    let Some((address, content)) = notice(event)? else {
        return Ok(None);
    };
    let nonce = event.id.to_string();
    if tables::is_sent(tx, &nonce).await? {
        return Ok(None);
    }
    let unknown_user = || Error::invalid(format!("no user is known for {}", address.as_str()));
    let user_id = tables::user_at(tx, address.clone()).await?.ok_or_else(unknown_user)?;
    Ok(Some(Message {
        nonce,
        user_id,
        content,
    }))
}

/// Stores the address that an event brings.
async fn learn(tx: &Tx, event: &Event) -> Result<()> {
    let (from, to) = match event.event_type.as_str() {
        BotInstalled::TYPE => {
            let installed: BotInstalled = event.decode()?;
            (
                Address::guild(&installed.guild_id),
                Address::user(&installed.installer_user_id),
            )
        }
        GuildOwnerChanged::TYPE => {
            let changed: GuildOwnerChanged = event.decode()?;
            (Address::guild(&changed.guild_id), Address::user(&changed.new_owner_id))
        }
        SubscriptionStarted::TYPE => {
            let started: SubscriptionStarted = event.decode()?;
            let payer = payer(event).unwrap_or_else(|| Address::guild(&started.guild_id));
            (Address::subscription(&started.subscription_id), payer)
        }
        // These events also arrive for a subscription that never started: its first payment was refunded, or its guild was
        // deleted first.
        PaymentRefunded::TYPE | SubscriptionCanceled::TYPE => match payer(event) {
            Some(payer) => (Address::subscription(&event.aggregate_id), payer),
            None => return Ok(()),
        },
        LicenseGranted::TYPE => {
            let granted: LicenseGranted = event.decode()?;
            (Address::license(&granted.license_id), Address::guild(&granted.guild_id))
        }
        RestoreStarted::TYPE => {
            let started: RestoreStarted = event.decode()?;
            (
                Address::restore(&started.restore_job_id),
                Address::guild(&started.guild_id),
            )
        }
        _ => return Ok(()),
    };
    tables::learn(tx, &from, &to, &mark(event)).await
}

fn payer(event: &Event) -> Option<Address> {
    event.headers.get(USER_ID).map(|user_id| Address::user(user_id))
}

/// The address and the text of an event's notice, if it has one.
fn notice(event: &Event) -> Result<Option<(Address, String)>> {
    let notice = match event.event_type.as_str() {
        LicenseDowngraded::TYPE => {
            let downgraded: LicenseDowngraded = event.decode()?;
            let says = format!("Downgraded to {}", plan_name(&downgraded.new_plan));
            (Address::license(&downgraded.license_id), says)
        }
        LicenseSuspended::TYPE => {
            let suspended: LicenseSuspended = event.decode()?;
            let says = format!("Your licence is suspended: {}", reason(&suspended.reason));
            (Address::license(&suspended.license_id), says)
        }
        RestoreStarted::TYPE => {
            let started: RestoreStarted = event.decode()?;
            (
                Address::restore(&started.restore_job_id),
                "Restoring your server".to_owned(),
            )
        }
        RestoreCompleted::TYPE => {
            let completed: RestoreCompleted = event.decode()?;
            let says = format!("Your server is restored: {}", completed.result_summary);
            (Address::restore(&completed.restore_job_id), says)
        }
        RestoreFailed::TYPE => {
            let failed: RestoreFailed = event.decode()?;
            let says = format!("Your server could not be restored: {}", failed.error_summary);
            (Address::restore(&failed.restore_job_id), says)
        }
        AntiNukeTriggered::TYPE => {
            let triggered: AntiNukeTriggered = event.decode()?;
            let says = format!("URGENT: {} on your server", triggered.detected_pattern);
            (Address::guild(&triggered.guild_id), says)
        }
        AntiNukeActioned::TYPE => {
            let actioned: AntiNukeActioned = event.decode()?;
            let says = format!("We protected your server: {} measures", actioned.actions_taken.len());
            (Address::guild(&actioned.guild_id), says)
        }
        _ => return subscription_notice(event),
    };
    Ok(Some(notice))
}

/// The notice to the paying user, if the event has one.
fn subscription_notice(event: &Event) -> Result<Option<(Address, String)>> {
    let says = match event.event_type.as_str() {
        SubscriptionStarted::TYPE => {
            let started: SubscriptionStarted = event.decode()?;
            format!("{} activated", plan_name(&started.plan_code))
        }
        PaymentFailed::TYPE => payment_failed(event.decode::<PaymentFailed>()?.retry_count),
        PaymentFailedFinal::TYPE => "Subscription canceled: payment failed four times".to_owned(),
        PaymentRefunded::TYPE => refunded(event.decode::<PaymentRefunded>()?.amount),
        SubscriptionCanceled::TYPE => canceled(event.decode::<SubscriptionCanceled>()?.cancel_at_period_end),
        PlanUpgraded::TYPE => format!("Upgraded to {}", plan_name(&event.decode::<PlanUpgraded>()?.new_plan)),
        PlanDowngraded::TYPE => {
            let downgraded: PlanDowngraded = event.decode()?;
            let from = downgraded.effective_at.date();
            format!("Your plan will be {} from {from}", plan_name(&downgraded.new_plan))
        }
        _ => return Ok(None),
    };
    Ok(Some((Address::subscription(&event.aggregate_id), says)))
}
