//! Money: an integer number of minor units of a currency.

use std::fmt;

use super::Refusal;

/// The currencies of ISO 4217 that are in use.
const CODES: [&str; 154] = [
    "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD", "BIF", "BMD", "BND",
    "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CLP", "CNY", "COP", "CRC", "CUP", "CVE",
    "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD",
    "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY",
    "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "LYD", "MAD",
    "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO",
    "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF",
    "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB",
    "TJS", "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VES", "VND", "VUV",
    "WST", "XAF", "XCD", "XCG", "XOF", "XPF", "YER", "ZAR", "ZMW", "ZWG",
];

/// A currency, by its ISO 4217 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(&'static str);

impl Currency {
    /// The currency with this code.
    pub fn parse(code: &str) -> Result<Self, Refusal> {
        let known = CODES.iter().find(|known| **known == code);
        known.map(|code| Self(code)).ok_or(Refusal::UnknownCurrency)
    }

    /// Its code.
    pub fn code(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The most that one posting moves, in minor units. It lies far below the highest balance of an account, and programs that read numbers
/// as doubles still read it exactly.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000_000;

/// An amount that can be moved: at least one minor unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    minor: i64,
    currency: Currency,
}

impl Money {
    /// Creates an amount of `minor` units (cents, won) of a currency; at most [`AMOUNT_MAX`].
    pub fn new(minor: i64, currency: Currency) -> Result<Self, Refusal> {
        match minor {
            ..=AMOUNT_MAX => Self::posted(minor, currency),
            _ => Err(Refusal::AmountTooLarge),
        }
    }

    /// The amount of a transaction that was posted. Earlier versions had no limit.
    pub(super) fn posted(minor: i64, currency: Currency) -> Result<Self, Refusal> {
        match minor {
            ..0 => Err(Refusal::NegativeAmount),
            0 => Err(Refusal::ZeroAmount),
            1.. => Ok(Self { minor, currency }),
        }
    }

    /// The amount in minor units; at least 1.
    pub fn minor(self) -> i64 {
        self.minor
    }

    /// The currency.
    pub fn currency(self) -> Currency {
        self.currency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_positive_amount_is_money() {
        let krw = Currency::parse("KRW").unwrap();
        assert_eq!(Money::new(1, krw).unwrap().minor(), 1);
        assert_eq!(Money::new(0, krw), Err(Refusal::ZeroAmount));
        assert_eq!(Money::new(-1, krw), Err(Refusal::NegativeAmount));
        assert_eq!(Money::new(i64::MIN, krw), Err(Refusal::NegativeAmount));
    }

    #[test]
    fn one_posting_has_a_limit() {
        let krw = Currency::parse("KRW").unwrap();
        assert_eq!(Money::new(AMOUNT_MAX, krw).unwrap().minor(), AMOUNT_MAX);
        for more in [AMOUNT_MAX + 1, i64::MAX] {
            let refusal = Money::new(more, krw).unwrap_err();
            assert_eq!(refusal.code(), "amount_too_large");
            let says = refusal.to_string();
            assert!(says.contains("amount") && says.contains("1000000000000000"), "{says}");
        }
        assert_eq!(Money::posted(i64::MAX, krw).unwrap().minor(), i64::MAX);
    }

    #[test]
    fn a_currency_is_known_by_its_code_alone() {
        assert!(CODES.is_sorted());
        for unknown in ["", "krw", "KR", "KRWW", "XYZ", "₩₩₩"] {
            assert_eq!(Currency::parse(unknown), Err(Refusal::UnknownCurrency), "{unknown:?}");
        }
    }
}
