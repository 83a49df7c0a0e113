//! All issuers of a file, and whose JWTs theirs are.

use std::sync::Arc;

use super::{
    cache::Cache,
    claims::{self, Claims, Issued},
    fault::JwtFault,
    issuer::Issuer,
    parts::Parts,
    refused::Refused,
};
use crate::{
    access::{allowance::Allowance, patterns::Patterns, subject::Subject, token::TokenDigest},
    clock::HashMap,
};

/// All issuers of a file.
#[derive(Clone, Debug, Default)]
pub(in crate::access) struct Issuers {
    by_name: HashMap<Box<str>, (Arc<Issuer>, Patterns)>,
    verified: Cache<(usize, JwtProof)>,
    refused: Refused,
}

/// A JWT that was verified: until when it is valid, by whose key, and of which subject.
#[derive(Clone, Debug)]
pub struct JwtProof(Arc<Verified>);

#[derive(Debug)]
struct Verified {
    until_ms: u64,
    issuer: Arc<Issuer>,
    /// The place of the key among the issuer's.
    key: usize,
    sub: Box<str>,
}

impl JwtProof {
    /// When the JWT ends, in milliseconds since 1970.
    #[must_use]
    pub fn until_ms(&self) -> u64 {
        self.0.until_ms
    }
}

impl Issuers {
    /// These issuers, and the subjects of principals with the principals' places in the file.
    pub(in crate::access) fn new(issuers: Vec<Issuer>, subjects: &[(usize, &Subject)]) -> Self {
        let entry = |issuer: Issuer| {
            let own = subjects.iter().filter(|(_, subject)| subject.issuer == issuer.name);
            let patterns = Patterns::new(own.map(|(at, subject)| (*at, &subject.sub)));
            (issuer.name.clone(), (Arc::new(issuer), patterns))
        };
        let by_name = issuers.into_iter().map(entry).collect();
        Self { by_name, verified: Cache::default(), refused: Refused::default() }
    }

    /// The place of the principal that shows this JWT. Its signature is verified if the allowance allows that.
    ///
    /// # Errors
    /// Why it is nobody's.
    pub(in crate::access) fn judge(
        &self,
        token: &str,
        digest: TokenDigest,
        now_ms: u64,
        allowance: &dyn Allowance,
    ) -> Result<(usize, JwtProof), JwtFault> {
        if let Some(known) = self.verified.get(&digest, now_ms)? {
            return Ok(known);
        }
        if self.refused.has(&digest) {
            return Err(JwtFault::Signature);
        }
        let parts = Parts::of(token)?;
        let Issued { iss } = claims::read(&parts.claims)?;
        let (issuer, subjects) = self.by_name.get(&*iss).ok_or(JwtFault::UnknownIssuer)?;
        let key = issuer.key_of(&parts)?;
        if !allowance.is_left() {
            return Err(JwtFault::Crowded);
        }
        if !issuer.has_signed(key, &parts) {
            allowance.failed();
            self.refused.keep(digest);
            return Err(JwtFault::Signature);
        }
        let claims: Claims = claims::read(&parts.claims)?;
        let span = claims.judge(&issuer.audience, issuer.max_age_ms, now_ms)?;
        let Some(at) = subjects.find(&claims.sub) else {
            let (issuer, sub) = (iss.into(), claims.sub.into());
            return Err(JwtFault::UnknownSubject { issuer, sub });
        };
        let verified = Verified {
            until_ms: span.until_ms,
            issuer: issuer.clone(),
            key,
            sub: claims.sub.into(),
        };
        let proof = JwtProof(Arc::new(verified));
        self.verified.keep(digest, span, (at, proof.clone()), now_ms);
        Ok((at, proof))
    }

    /// The place of the principal whose JWT was verified before, perhaps by an earlier reading of the file.
    pub(in crate::access) fn find(&self, proof: &JwtProof) -> Option<usize> {
        let Verified { issuer, key, sub, .. } = &*proof.0;
        let (now, subjects) = self.by_name.get(&issuer.name)?;
        if now.accepts_as(issuer, *key) { subjects.find(sub) } else { None }
    }

    /// What the file says of each issuer, and which keys its files have.
    pub(in crate::access) fn content(&self) -> Vec<String> {
        self.by_name.values().map(|(issuer, _)| format!("{issuer:?}")).collect()
    }

    #[cfg(test)]
    pub(super) fn verified(&self) -> usize {
        self.verified.len()
    }
}
