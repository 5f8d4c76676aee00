drop table hello_parcel;
drop table hello_receipt;
drop table hello_order;
