-- Attempts of versions that asked first and wrote down afterwards: whether the card was asked, their status does not say.
alter table umbra_attempt add column /*M! if not exists */ is_unsure boolean;

update umbra_attempt set is_unsure = true where status = 'open';
