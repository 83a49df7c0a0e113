//! Clients of plain HTTP that use no proxy.

use tenure::tls;

pub fn builder() -> reqwest::ClientBuilder {
    tls::http(tls::none())
}

pub fn client() -> reqwest::Client {
    builder().build().expect("a client")
}
