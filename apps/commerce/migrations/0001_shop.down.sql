drop table commerce_product_metric;
drop table commerce_order_line;
drop table commerce_order;
drop table commerce_like;
drop table commerce_product;
drop table commerce_sequence;
