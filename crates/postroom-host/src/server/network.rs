//! Networks: ranges of IP addresses, as an operator writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use postroom::{Error, Result};

/// An IP address, or a range of them in CIDR notation: `10.0.0.0/8`, `2001:db8::/32`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// Whether the address lies in it. An IPv4 address may also be written as IPv6 (`::ffff:10.0.0.1`).
    pub fn contains(&self, address: IpAddr) -> bool {
        start(address.to_canonical(), self.prefix_bits) == Some(self.first)
            && address.to_canonical().is_ipv4() == self.first.is_ipv4()
    }
}

/// The first address of the range that has this prefix; none if the prefix is longer than an address.
fn start(address: IpAddr, prefix_bits: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => {
            let host_bits = Ipv4Addr::BITS.checked_sub(prefix_bits)?;
            let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
            Some(Ipv4Addr::from_bits(v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let host_bits = Ipv6Addr::BITS.checked_sub(prefix_bits)?;
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            Some(Ipv6Addr::from_bits(v6.to_bits() & mask).into())
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let wanted = "an address or a range such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32";
            Error::invalid(format!("{text:?} is not a network; give {wanted}"))
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_error| refuse())?;
        let bits = if address.is_ipv4() {
            Ipv4Addr::BITS
        } else {
            Ipv6Addr::BITS
        };
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_error| refuse())?,
            None => bits,
        };
        let first = start(address, prefix_bits).ok_or_else(refuse)?;
        if first != address {
            return Err(Error::invalid(format!(
                "{text:?} has bits behind its prefix; write {first}/{prefix_bits} for the range, or {address} for one address"
            )));
        }
        Ok(Self { first, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_a_network_or_not() {
        let check = |network: &str, address: &str, expected: bool| {
            let network: Network = network.parse().unwrap();
            assert_eq!(
                network.contains(address.parse().unwrap()),
                expected,
                "{address} in {network}"
            );
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.0.0.1", true);
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("0.0.0.0/0", "203.0.113.7", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "2001:db8::1", true);
        check("::/0", "203.0.113.7", false);
        check("2001:db8::/33", "2001:db8:7fff::1", true);
        check("2001:db8::/33", "2001:db8:8000::1", false);
        check("::1", "::1", true);
        check("::1", "::2", false);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0/8",
            "::1/129",
            "::1/-1",
            "example.com",
            "10.0.0.1/8",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let said = "10.1.2.3/8".parse::<Network>().unwrap_err().to_string();
        assert!(said.contains("write 10.0.0.0/8"), "{said}");
    }
}
