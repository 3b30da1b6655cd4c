//! Who calls: tokens, of which the database holds only the hash.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::{Db, Error};
use crate::id::{OrgId, UserId};
use crate::viewer::{Role, Viewer};

/// A token just made. Its secret is shown this once.
pub struct NewToken {
    /// Names it in lists.
    pub id: Uuid,
    /// What the caller sends: `sa_` and 256 random bits.
    pub secret: String,
}

/// Who presented a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The token.
    pub token: Uuid,
    /// Whose rows it sees.
    pub viewer: Viewer,
    /// What it may do.
    pub role: Role,
}

/// Makes a token for this viewer.
///
/// # Errors
/// `Database`, also if the system has no random numbers to give.
pub async fn create(db: &Db, viewer: Viewer, role: Role) -> Result<NewToken, Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| sqlx::Error::Io(std::io::Error::other(error.to_string())))?;
    let token = NewToken { id: Uuid::now_v7(), secret: format!("sa_{}", URL_SAFE_NO_PAD.encode(random)) };
    let hash = hash(&token.secret);
    db.retrying(|| insert(db, &token, &hash, viewer, role)).await?;
    Ok(token)
}

async fn insert(db: &Db, token: &NewToken, hash: &str, viewer: Viewer, role: Role) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::token
         INSERT INTO sa_token (id, token_hash, kind, role, org_id, user_id) VALUES (?, ?, 'token', ?, ?, ?)",
        token.id.as_hyphenated(),
        hash,
        role,
        viewer.org,
        viewer.user,
    )
    .execute(db.pool())
    .await?;
    Ok(())
}

/// SHA-256 in hex. The secret has 256 random bits, so nothing slower is needed.
fn hash(secret: &str) -> String {
    Sha256::digest(secret.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Who this token is of; nothing if it is unknown, revoked or past its time.
///
/// # Errors
/// `Database`.
pub async fn verify(db: &Db, presented: &str) -> Result<Option<Caller>, Error> {
    if !presented.starts_with("sa_") {
        return Ok(None);
    }
    let hash = hash(presented);
    db.retrying(|| find(db, &hash)).await
}

async fn find(db: &Db, hash: &str) -> Result<Option<Caller>, Error> {
    let row = sqlx::query!(
        r#"-- repo::token
         SELECT id AS "id: Hyphenated", role AS "role: Role", org_id AS "org: OrgId", user_id AS "user: UserId",
                COALESCE(last_used_at < UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE, TRUE) AS "unseen!: bool"
           FROM sa_token
          WHERE token_hash = ?
            AND revoked_at IS NULL
            AND (expires_at IS NULL OR expires_at > UTC_TIMESTAMP(6))"#,
        hash,
    )
    .fetch_optional(db.pool())
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.unseen {
        sqlx::query!(
            "-- repo::token
             UPDATE sa_token SET last_used_at = UTC_TIMESTAMP(6) WHERE id = ?",
            row.id,
        )
        .execute(db.pool())
        .await?;
    }
    let viewer = Viewer { org: row.org, user: row.user };
    Ok(Some(Caller { token: row.id.into_uuid(), viewer, role: row.role }))
}
