//! What happens to licences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::catalog::catalog;

/// A guild has a licence for a plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseGranted {
    /// The licence.
    pub license_id: String,
    /// The guild.
    pub guild_id: String,
    /// The plan.
    pub plan_code: String,
}

/// A licence lasts longer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseExtended {
    /// The licence.
    pub license_id: String,
    /// Until then.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String")]
    pub new_expires_at: OffsetDateTime,
}

/// A licence is for a smaller plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseDowngraded {
    /// The licence.
    pub license_id: String,
    /// The plan it was for.
    pub old_plan: String,
    /// The plan it is for.
    pub new_plan: String,
}

/// A licence does not count for now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseSuspended {
    /// The licence.
    pub license_id: String,
    /// Why.
    pub reason: String,
}

/// A licence is over.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseCanceled {
    /// The licence.
    pub license_id: String,
}

catalog! {
    LicenseGranted of "license" by license_id,
    LicenseExtended of "license" by license_id,
    LicenseDowngraded of "license" by license_id,
    LicenseSuspended of "license" by license_id,
    LicenseCanceled of "license" by license_id,
}
