//! Recognizes a call that is repeated under its `request_id`.

use sha2::{Digest, Sha256};

use crate::{
    access::Broken,
    api::limits::MAX_REQUEST_ID_BYTES,
    http::{answer::Problem, caller::Caller},
};

/// Digests of a request id and of the rest of the request. The lease's record keeps both.
///
/// A request id belongs to its principal: that of another principal is another one.
pub fn mark(
    caller: &Caller,
    request_id: Option<&str>,
    parts: &[&[u8]],
) -> Result<Option<(u128, u64)>, Problem> {
    let Some(id) = request_id else { return Ok(None) };
    if id.is_empty() || id.len() > MAX_REQUEST_ID_BYTES {
        let detail = format!("is {} bytes long; it must be 1 to {MAX_REQUEST_ID_BYTES}", id.len());
        return Err(Problem::field("request_id", detail));
    }
    let mut body = Sha256::new();
    for part in parts {
        body.update(part.len().to_le_bytes());
        body.update(part);
    }
    let mut of_id = Sha256::new();
    if let Some(principal) = caller.principal()
        && !Broken::MarkWithoutPrincipal.is_active()
    {
        // No request id begins with this: they are text.
        of_id.update([0xff]);
        of_id.update(principal.digest().number().to_be_bytes());
    }
    of_id.update(id.as_bytes());
    let id = of_id.finalize();
    let mut wide = [0; 16];
    wide.copy_from_slice(&id[..16]);
    let mut narrow = [0; 8];
    narrow.copy_from_slice(&body.finalize()[..8]);
    Ok(Some((u128::from_be_bytes(wide), u64::from_be_bytes(narrow))))
}
