//! What may happen to a guild.

use crate::refusal::Refusal;

/// A guild that had the bot once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guild {
    /// Discord's number of it.
    pub(crate) guild_id: String,
    /// Whose it is.
    pub(crate) owner_id: String,
    /// Whether the bot is there.
    pub(crate) status: Status,
    /// How often it has changed.
    pub(crate) version: i64,
}

/// Whether the bot is in a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The bot is there.
    Installed,
    /// It was.
    Kicked,
    /// The guild itself is gone.
    Deleted,
}

impl Status {
    /// As it is kept and shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Kicked => "kicked",
            Self::Deleted => "deleted",
        }
    }

    /// Reads back [`Status::name`].
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "installed" => Self::Installed,
            "kicked" => Self::Kicked,
            _ => Self::Deleted,
        }
    }
}

impl Guild {
    /// The bot comes (back) into a guild; whoever installs it counts as the owner until somebody says otherwise.
    pub(crate) fn install(known: Option<Self>, guild_id: &str, installer_user_id: &str) -> Result<Self, Refusal> {
        let version = known.as_ref().map_or(1, |guild| guild.version);
        match known.map(|guild| guild.status) {
            Some(Status::Installed) => Err(Refusal::conflict("already_installed", "the bot is in this guild")),
            Some(Status::Deleted) => Err(Refusal::conflict("guild_deleted", "this guild was deleted")),
            Some(Status::Kicked) | None => Ok(Self {
                guild_id: guild_id.to_owned(),
                owner_id: installer_user_id.to_owned(),
                status: Status::Installed,
                version,
            }),
        }
    }

    /// The bot is thrown out.
    pub(crate) fn kick(&mut self) -> Result<(), Refusal> {
        self.check_installed()?;
        self.status = Status::Kicked;
        Ok(())
    }

    /// Somebody else owns it; answers who did.
    pub(crate) fn change_owner(&mut self, owner_id: &str) -> Result<String, Refusal> {
        self.check_installed()?;
        if self.owner_id == owner_id {
            return Err(Refusal::conflict("same_owner", "this user owns the guild already"));
        }
        Ok(std::mem::replace(&mut self.owner_id, owner_id.to_owned()))
    }

    /// The guild is gone, with or without the bot in it.
    pub(crate) fn delete(&mut self) -> Result<(), Refusal> {
        if self.status == Status::Deleted {
            return Err(Refusal::conflict("guild_deleted", "this guild was deleted"));
        }
        self.status = Status::Deleted;
        Ok(())
    }

    /// Whether the bot is there.
    pub(crate) fn check_installed(&self) -> Result<(), Refusal> {
        match self.status {
            Status::Installed => Ok(()),
            Status::Kicked | Status::Deleted => Err(Refusal::conflict("not_installed", "the bot is not in this guild")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_comes_goes_and_comes_back_but_not_to_a_guild_that_is_gone() {
        let mut guild = Guild::install(None, "1", "ada").unwrap();
        assert_eq!(
            Guild::install(Some(guild.clone()), "1", "bob").unwrap_err().code,
            "already_installed"
        );
        assert_eq!(guild.change_owner("ada").unwrap_err().code, "same_owner");
        assert_eq!(guild.change_owner("bob").unwrap(), "ada");
        guild.kick().unwrap();
        assert_eq!(guild.kick().unwrap_err().code, "not_installed");
        assert_eq!(guild.change_owner("ada").unwrap_err().code, "not_installed");
        let mut guild = Guild::install(Some(guild), "1", "eve").unwrap();
        guild.delete().unwrap();
        assert_eq!(guild.delete().unwrap_err().code, "guild_deleted");
        assert_eq!(
            Guild::install(Some(guild), "1", "ada").unwrap_err().code,
            "guild_deleted"
        );
    }
}
