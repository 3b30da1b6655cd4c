//! Identities as types, so that two of them cannot be swapped.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::mysql::{MySqlTypeInfo, MySqlValueRef};
use sqlx::{Decode, Encode, MySql, Type};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new UUIDv7: later ids sort after earlier ones, so inserts append to the primary key.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "a default that differs each time surprises")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id that is this UUID.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// This id as a UUID.
            #[must_use]
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }

        impl Type<MySql> for $name {
            fn type_info() -> MySqlTypeInfo {
                <Hyphenated as Type<MySql>>::type_info()
            }

            fn compatible(ty: &MySqlTypeInfo) -> bool {
                <Hyphenated as Type<MySql>>::compatible(ty)
            }
        }

        impl<'q> Encode<'q, MySql> for $name {
            fn encode_by_ref(&self, buf: &mut Vec<u8>) -> Result<IsNull, BoxDynError> {
                Encode::<MySql>::encode_by_ref(self.0.as_hyphenated(), buf)
            }
        }

        impl<'r> Decode<'r, MySql> for $name {
            fn decode(value: MySqlValueRef<'r>) -> Result<Self, BoxDynError> {
                <Hyphenated as Decode<MySql>>::decode(value).map(|id| Self(id.into_uuid()))
            }
        }
    };
}

uuid_id!(
    /// A job: one execution record.
    JobId
);
uuid_id!(
    /// A prompt, the entity a job answers.
    PromptId
);
uuid_id!(
    /// A response, the entity an answer becomes.
    ResponseId
);
uuid_id!(
    /// Any entity: a prompt or a response.
    EntityId
);
uuid_id!(
    /// One worker process.
    WorkerId
);
uuid_id!(
    /// One provider call; minted before the call, so that a repeated write collides.
    LedgerId
);

impl ResponseId {
    /// The id of the one answer this job can have: UUIDv5 with the prompt as namespace and the job as name.
    ///
    /// ```
    /// use sa_core::id::{JobId, PromptId, ResponseId};
    /// let (prompt, job) = (PromptId::new(), JobId::new());
    /// assert_eq!(ResponseId::of(prompt, job), ResponseId::of(prompt, job));
    /// assert_ne!(ResponseId::of(prompt, job), ResponseId::of(prompt, JobId::new()));
    /// ```
    #[must_use]
    pub fn of(prompt: PromptId, job: JobId) -> Self {
        Self(Uuid::new_v5(&prompt.0, job.to_string().as_bytes()))
    }
}

impl From<PromptId> for EntityId {
    fn from(id: PromptId) -> Self {
        Self(id.0)
    }
}

impl From<ResponseId> for EntityId {
    fn from(id: ResponseId) -> Self {
        Self(id.0)
    }
}

/// The right to run one job once: `<worker uuid>.<counter>`.
///
/// Fresh for every claim statement and never reused: a worker that lost a job and claimed it again must not be able to
/// finish it with its stale run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub struct ClaimId(String);

impl ClaimId {
    /// The text that stands in `worker_claim`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Mints the claims of one worker, each once.
#[derive(Debug)]
pub struct ClaimIds {
    worker: WorkerId,
    next: u64,
}

impl ClaimIds {
    /// The claims of this worker. Make one a process: two of one worker would mint the same claims.
    #[must_use]
    pub const fn new(worker: WorkerId) -> Self {
        Self { worker, next: 1 }
    }

    /// Whose claims these are.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    pub(crate) fn mint(&mut self) -> ClaimId {
        let claim = ClaimId(format!("{}.{}", self.worker, self.next));
        self.next += 1;
        claim
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Type)]
        #[serde(transparent)]
        #[sqlx(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

number_id!(
    /// An organisation, numbered by the user's own product.
    OrgId
);
number_id!(
    /// A user, numbered by the user's own product.
    UserId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_claim_is_minted_once_under_its_workers_name() {
        let worker = WorkerId::new();
        let mut ids = ClaimIds::new(worker);
        assert_eq!(ids.worker(), worker);
        let minted = [ids.mint(), ids.mint(), ids.mint()];
        assert_eq!(minted.each_ref().map(ClaimId::as_str), [1, 2, 3].map(|n| format!("{worker}.{n}")));
        assert_eq!(minted[0].to_string(), minted[0].as_str());
    }
}
